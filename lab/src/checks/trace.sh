# Traces the functions that are hooked.
tracing=/sys/kernel/tracing
cut -d ' ' -f 1 $tracing/enabled_functions > /tmp/hooked
if [ -s /tmp/hooked ]; then
  cat /tmp/hooked > $tracing/set_ftrace_filter
  echo function > $tracing/current_tracer
fi
