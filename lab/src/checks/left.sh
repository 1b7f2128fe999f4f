list > /tmp/after
if grep -vxFf /tmp/before /tmp/after > /tmp/left; then
  echo "left behind: $(tr '\n' ' ' < /tmp/left)" >&2
  exit 1
fi
# Livepatch, unsigned and out of tree say nothing against a module.
tainted=$(($(cat /proc/sys/kernel/tainted) & ~(1 << 15 | 1 << 13 | 1 << 12)))
if [ $tainted -ne 0 ]; then
  echo "the kernel is tainted: $tainted" >&2
  exit 1
fi
