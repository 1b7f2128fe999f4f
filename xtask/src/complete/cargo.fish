# `cargo xtask …` is completed by the program, anything else by cargo's own completion.
complete --keep-order --exclusive --command cargo --condition '__fish_seen_subcommand_from xtask' --arguments "(COMPLETE=fish PROGRAM -- (commandline --current-process --tokenize --cut-at-cursor)[2..] (commandline --current-token))"
