# `cargo xtask …` is completed by the program, anything else by cargo's own completion.
_ftrace_lab_cargo() {
    if [[ $CURRENT -gt 2 && $words[2] == xtask ]]; then
        words=("${(@)words[2,-1]}")
        (( CURRENT -= 1 ))
        _clap_dynamic_completer_xtask
    elif (( $+functions[_cargo] )); then
        _cargo "$@"
    else
        _default
    fi
}
compdef _ftrace_lab_cargo cargo
