# Takes these functions as a livepatch would.
while read -r function; do
  echo $function > /sys/module/ipmodify/parameters/function
done < /tmp/modified
