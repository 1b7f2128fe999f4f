# Calls what is usually hooked, on each CPU: system calls on files, eventfds, processes and memory.
for cpu in 0 1; do
  taskset $((1 << cpu)) /workloads/eventfd 1 2 4
  taskset $((1 << cpu)) sh -c 'mkdir /tmp/d; echo text > /tmp/d/f; cat /tmp/d/f; rm -r /tmp/d; ls /proc'
done > /dev/null
