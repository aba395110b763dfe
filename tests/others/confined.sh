# SPDX-License-Identifier: Apache-2.0
# Programs in surroundings that lack what cprof needs: confined.sh NAME FOLDER-OF-PROGRAMS. Runs in an empty folder.
strict=$2/strict
marks() { "$strict" none marks; }
case $1 in
no_files) ulimit -n 4; marks; echo "$?" ;;
few_files) ulimit -n 16; marks; echo "$?"; python3 -c 'import threading; print(len([t.join() for t in [threading.Thread(target=str) for _ in range(9)] if not t.start()]))' ;;
memory) prlimit --as=61440000 bash -c "'$strict' none marks; echo \$?; seq 1000 | sort -n | tail -n 1" ;;
stack) ulimit -s 128; marks; echo "$?"; ulimit -s unlimited 2>/dev/null; marks; echo "$?" ;;
file_size) trap '' XFSZ; ulimit -f 1; marks; echo "$?" ;;
file_size_signal) ulimit -f 1; marks; echo "$?" ;;
processes) setpriv --reuid=65534 --regid=65534 --clear-groups bash -c "ulimit -u 1; exec '$strict' none marks"; echo "$?" ;;
cpu) ulimit -t 1; bash -c 'while :; do :; done'; echo "$?" ;;
no_new_privs) setpriv --no-new-privs "$strict" none marks; echo "$?" ;;
other_user) setpriv --reuid=65534 --regid=65534 --clear-groups "$strict" none marks; echo "$?" ;;
seccomp) "$strict" kill; echo "$?"; "$strict" refuse; echo "$?"; "$strict" refuse marks; echo "$?" ;;
seccomp_off) CPROF_ENABLED=0 "$strict" kill marks; echo "$?" ;;
unshare) unshare --user --map-root-user --pid --fork --mount-proc "$strict" none marks; echo "$?"; unshare --net --ipc --uts "$strict" none marks; echo "$?" ;;
chroot)
    mkdir -p root/dev "root$PWD"; for f in "$strict" /bin/echo ${LD_PRELOAD:+${LD_PRELOAD//:/ }}; do
        mkdir -p "root/$(dirname "$f")"; cp "$f" "root/$f"
        for l in $(LD_PRELOAD= ldd "$f" | grep -o '/[^ ]*'); do mkdir -p "root$(dirname "$l")"; [ -e "root$l" ] || cp "$l" "root$l"; done
    done
    chroot root "$strict" none marks; echo "$?"; chroot root /bin/echo inside; ls root ;;
static)
    echo 'int puts(const char *); int main(void) {puts("static"); return 4;}' >t.c; gcc -static t.c -o t 2>/dev/null && ./t; echo "$?"
    if command -v musl-gcc >/dev/null; then musl-gcc -static t.c -o m && ./m; echo "$?"; fi; if command -v busybox >/dev/null; then busybox echo box; fi ;;
closed) marks <&- >out 2>&-; echo "$?"; cat out; marks <&- >&- 2>&-; echo "$?" ;;
odd_env) env -i LD_PRELOAD="$LD_PRELOAD" "$strict" none marks; echo "$?"; env -i LD_PRELOAD="$LD_PRELOAD" CPROF_FOLDER=/proc/nowhere/at/all PATH=/ "$strict" none marks; echo "$?"; env HOME= TMPDIR=/nowhere PWD=/nowhere "$strict" none marks; echo "$?" ;;
deleted_folder) mkdir gone; cd gone || exit; rmdir ../gone; marks; echo "$?" ;;
renamed) bash -c 'exec -a "" "$0" none marks' "$strict"; echo "$?"; bash -c "exec -a 'a name
of two lines' '$strict' none marks"; echo "$?" ;;
esac
