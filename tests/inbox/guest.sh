# Init script of a Linux guest in the box: `run=` on its kernel command line is a script, with `+` for blanks.
words=$(sed -n 's/.*run=\([^ ]*\).*/\1/p' /proc/cmdline | tr '+' ' ')
echo "guest: up"
[ -z "$words" ] || eval "$words"
exec setsid cttyhack sh
