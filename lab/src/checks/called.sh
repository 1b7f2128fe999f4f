# Fails if one of the functions that are hooked was not called on each CPU.
if [ -s /tmp/hooked ]; then
  missed=no
  echo 0 > $tracing/tracing_on
  for cpu in 0 1; do
    sed -n 's/.*: \([^ ]*\) <-.*/\1/p' $tracing/per_cpu/cpu$cpu/trace | sort -u > /tmp/called
    # Not `grep -f`: busybox takes an empty list for one that has everything.
    while read -r function; do
      grep -qxF "$function" /tmp/called || echo "$function"
    done < /tmp/hooked > /tmp/missed
    if [ -s /tmp/missed ]; then
      echo "hooked, but not called on CPU $cpu: $(tr '\n' ' ' < /tmp/missed)" >&2
      missed=yes
    fi
  done
  echo nop > $tracing/current_tracer
  echo > $tracing/set_ftrace_filter
  echo 1 > $tracing/tracing_on
  if [ $missed = yes ]; then
    echo 'name a script that calls them: --exercise SCRIPT' >&2
    exit 1
  fi
fi
