# daemon.sh start FOLDER: as start scripts of servers do, it leaves a process in the background, and
# ends with 0 when that is up.
here=$(dirname "$0")
cd "$2" || exit 1
/usr/bin/python3 "$here/daemon.py" "$2" || exit 1
for _ in $(seq 300); do
  [ ! -e up ] || exit 0
  sleep 0.1
done
exit 1
