#!/bin/sh
# Runs between the vmtest crate and QEMU, for what vmtest has no option for. The lab writes a copy
# for each machine, which assigns these variables in place of this line:
: "${PATH:?} ${program:?} ${parent:?} ${tree:?} ${sockets:?} ${log:?} ${status:?}"
set -eu

# vmtest first checks whether there is a QEMU.
[ "$1" != --help ] || exec "$program" --help

# vmtest lets QEMU outlive it, so this script ends with the thread that runs vmtest.
if [ "$1" != --watched ]; then
	exec setpriv --pdeathsig TERM "$0" --watched "$@"
fi
shift
[ "$PPID" = "$parent" ] || exit 1

qemu=
leftovers=
stopped=
# Signals come in groups: Ctrl-C, then the death of the parent. The trap of a signal must not exit, since an
# exit in the trap of one signal would end that of another, or the removal of the files.
stop() {
	stopped=1
	# It may have exited already.
	[ -z "$qemu" ] || kill -KILL "$qemu" 2>/dev/null || :
}
trap stop TERM INT HUP
end() {
	# The signals of a terminal reach rm, too.
	trap '' TERM INT HUP
	# shellcheck disable=SC2086 # There are several, and none contains a blank.
	rm -rf -- "$sockets" $leftovers
}
trap end EXIT

# vmtest's sockets have fixed paths in /tmp, where any user can create files. They are links to sockets in
# the lab's own directory: another user can neither connect to these nor replace a link, and a path that
# is taken is an error.
hide() {
	socket=$sockets/${1##*/}
	ln -sT -- "$socket" "$1" 2>>"$log"
	leftovers="$leftovers $1"
}

for argument do
	shift
	case $argument in
	# All guests share the tree, and the shared files are the lab's: both are read-only.
	local,*,mount_tag=/dev/root,*)
		# Kernels before 6.5 look for the part after `/dev/`, later ones for the whole tag.
		argument=${argument%%mount_tag=*}mount_tag=root,${argument#*mount_tag=/dev/root,},readonly=on
		;;
	local,*) argument=$argument,readonly=on ;;
	socket,path=/*)
		path=${argument#socket,path=}
		hide "${path%%,*}"
		argument=socket,path=$socket,${path#*,}
		;;
	unix:/*)
		path=${argument#unix:}
		hide "${path%%,*}"
		argument=unix:$socket,${path#*,}
		;;
	*' init='*) path=${argument#* init=} leftovers="$leftovers $tree${path%% *}" ;;
	esac
	set -- "$@" "$argument"
done

[ -z "$stopped" ] || exit 1
setpriv --pdeathsig KILL "$program" "$@" 2>>"$log" &
qemu=$!
[ -z "$stopped" ] || stop
code=0
# A signal ends the wait early.
while kill -0 "$qemu" 2>/dev/null; do
	code=0
	wait "$qemu" 2>/dev/null || code=$?
done
# The lab may have removed the directory.
echo "$code" >"$status" || :
exit "$code"
