# `cargo xtask …` is completed by the program, anything else by cargo's own completion.
_ftrace_lab_cargo() {
    if [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} == xtask ]]; then
        local -a COMP_WORDS=("${COMP_WORDS[@]:1}")
        local COMP_CWORD=$((COMP_CWORD - 1))
        _clap_complete_xtask xtask "$2" "$3"
    elif [[ -n ${_ftrace_lab_cargo_before-} ]]; then
        "$_ftrace_lab_cargo_before" "$@"
    fi
}
if [[ $(complete -p cargo 2>/dev/null) =~ -F\ ([^ ]+) && ${BASH_REMATCH[1]} != _ftrace_lab_cargo ]]; then
    _ftrace_lab_cargo_before=${BASH_REMATCH[1]}
fi
complete -o bashdefault -o default -F _ftrace_lab_cargo cargo
