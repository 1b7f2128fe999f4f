# Counts the objects of kmalloc until they are fewer than `enough`, or no longer decrease: kfree_rcu waits for up to
# five seconds, and on a busy host for longer. The files of sysfs have the same counts, but each time one is closed, it
# leaves an object to kfree_rcu itself.
count() {
  total=0
  while read -r cache used rest; do
    case $cache in kmalloc-*) total=$((total + used)) ;; esac
  done < /proc/slabinfo
}
count; least=$total; since=0
while [ $since -lt $patience ] && [ $least -ge $enough ]; do
  sleep 0.5; count; since=$((since + 1))
  if [ $total -lt $least ]; then least=$total; since=0; fi
done
