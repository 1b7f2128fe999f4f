# Counts the objects of kmalloc until they are fewer than `enough`, or no longer decrease: kfree_rcu waits for up to
# five seconds, and on a busy host for longer.
count() {
  total=0
  for cache in /sys/kernel/slab/kmalloc-*; do
    read -r used nodes < $cache/objects
    total=$((total + used))
  done
}
count; least=$total; since=0
while [ $since -lt $patience ] && [ $least -ge $enough ]; do
  sleep 0.5; count; since=$((since + 1))
  if [ $total -lt $least ]; then least=$total; since=0; fi
done
