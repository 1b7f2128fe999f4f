#!/bin/sh
# Between the vmtest crate and QEMU: what vmtest has no word for. The lab writes a copy for each
# machine, with assignments of these in place of this line:
: "${program:?} ${parent:?} ${tree:?} ${log:?} ${status:?}"
set -eu

# vmtest asks first whether there is a QEMU.
[ "$1" != --help ] || exec "$program" --help

# vmtest lets QEMU outlive it: this script ends with the lab's thread that runs vmtest.
if [ "$1" != --watched ]; then
	exec setpriv --pdeathsig TERM "$0" --watched "$@"
fi
shift
[ "$PPID" = "$parent" ] || exit 1

leftovers=
for argument do
	shift
	case $argument in
	# The tree belongs to all guests, and what is shared with this one to the lab.
	local,*,mount_tag=/dev/root,*)
		# Kernels before 6.5 look for what is behind `/dev/`, later ones for the whole of it.
		argument=${argument%%mount_tag=*}mount_tag=root,${argument#*mount_tag=/dev/root,},readonly=on
		;;
	local,*) argument=$argument,readonly=on ;;
	# vmtest's sockets have fixed places, and are its own to remove while it lives.
	socket,path=/*) path=${argument#socket,path=} leftovers="$leftovers ${path%%,*}" ;;
	unix:/*) path=${argument#unix:} leftovers="$leftovers ${path%%,*}" ;;
	*' init='*) path=${argument#* init=} leftovers="$leftovers $tree${path%% *}" ;;
	esac
	set -- "$@" "$argument"
done

end() {
	# It may be gone already.
	kill -KILL "$qemu" 2>/dev/null || :
	# shellcheck disable=SC2086 # Several, and none has a blank in it.
	rm -f -- $leftovers
}
trap 'end; exit 1' TERM INT HUP
setpriv --pdeathsig KILL "$program" "$@" 2>"$log" &
qemu=$!
code=0
wait "$qemu" || code=$?
echo "$code" >"$status"
end
exit "$code"
