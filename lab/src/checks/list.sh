# Lists what a module may leave besides what every scenario looks for: files of debugfs and /proc, and devices.
list() {
  find /sys/kernel/debug -path /sys/kernel/debug/tracing -prune -o -print
  find /dev /proc/sys
  ls -d /proc/[!0-9]*
}
