#!/usr/bin/env bash
# case: an engine writes into another user's file in a shared folder, or through another user's link
. "$CASES/lib.sh"
attacked
folder() { shared=$WORK/tmp/$1; mkdir -m "$2" "$shared"; }
# refused WORDS [FOLDER]: bob's engine does not start there.
refused() {
  local code=0
  as bob "$BURSAR" run --detach --memory 8MiB -l user=bob --log-dir "${2:-$shared}" -- touch "$WORK/tmp/ran" >"$WORK/said" 2>&1 || code=$?
  [[ $code != 0 ]] && grep -q "$1" "$WORK/said" && [[ ! -e $WORK/tmp/ran ]] || fault "$code: $(cat "$WORK/said"); want it refused with $1"
}
as bob "$BURSAR" run --help 2>&1 | grep -q -- --log-dir || fault 'run has no --log-dir'
n=0
for mode in 777 1777; do
  for name in stdout stderr stdout.1 .stdout.offsets; do
    folder $((++n)) $mode
    as mallory sh -c "umask 0; echo theirs >'$shared/$name'"
    say "mallory's $name in a folder of mode $mode"
    refused "$name: is a file of uid"
    [[ $(cat "$shared/$name") == theirs ]] || fault "$name has $(cat "$shared/$name")"
  done
done
say 'a second name of a file of bob'
folder hard 777
as bob sh -c "echo precious >'$WORK/tmp/precious'; chmod 644 '$WORK/tmp/precious'"
ln "$WORK/tmp/precious" "$shared/stdout"
refused 'stdout: has another name'
[[ $(stat -c '%a %s' "$WORK/tmp/precious") == '644 9' ]] || fault "$(stat "$WORK/tmp/precious")"
say 'a FIFO, a device and a link'
folder fifo 777 && as mallory mkfifo -m 666 "$shared/stdout" && refused 'is no regular file'
folder device 777 && mknod -m 666 "$shared/stderr" c 1 3 && refused 'is no regular file'
folder link 777 && as mallory ln -s "$WORK/tmp/precious" "$shared/stdout" && refused 'is no regular file'
say 'a link of mallory leads to the folder'
as bob mkdir "$WORK/tmp/bobs"
as mallory ln -s "$WORK/tmp/bobs" "$WORK/tmp/way"
refused 'is a link of uid' "$WORK/tmp/way"
[[ -z $(ls -A "$WORK/tmp/bobs") ]] || fault "$(ls -la "$WORK/tmp/bobs")"

say 'a folder that both may write to has the output of bob'
folder good 1777
as bob "$BURSAR" run --detach --memory 8MiB -l user=bob --log-dir "$shared" -- sh -c 'echo hello' >"$WORK/said" 2>&1 || fault "$(cat "$WORK/said")"
