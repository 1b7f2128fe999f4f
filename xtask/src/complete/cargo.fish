# `cargo xtask …`: the words from `xtask` on are the program's, anything else is cargo's own.
complete --keep-order --exclusive --command cargo --condition '__fish_seen_subcommand_from xtask' --arguments "(COMPLETE=fish PROGRAM -- (commandline --current-process --tokenize --cut-at-cursor)[2..] (commandline --current-token))"
