# Notes the functions that are hooked with IPMODIFY.
awk -F '\t' '$1 ~ / I/ { split($1, words, " "); print words[1] }' /sys/kernel/tracing/enabled_functions > /tmp/modified
