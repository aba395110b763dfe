# SPDX-License-Identifier: Apache-2.0
# Everyday uses of the shell and the coreutils. Prints the same in each run. Runs under bash in an empty folder.
echo one two three | tr ' ' '\n' >words
cat words; cat -n words; tac words; rev words; nl words; wc words; wc -l <words
head -n 1 words; tail -n 1 words; sort words; sort -r words; sort words | uniq -c
cut -c 2 words; paste words words; join words words; fold -w 2 words; expand words; fmt -w 3 words
sed 's/o/0/g' words; sed -n 2p words; awk '{print length($1)}' words; grep -c o words; grep -v two words; egrep 'o|t' words; fgrep two words
comm words words; cmp words words; diff words words; diff words <(sort words); echo "$?"
mkdir -p a/b/c; touch a/b/c/d; find a | sort; find a -type f -exec echo {} +; find a -name d -print0 | xargs -0 -n1 echo
cp words copy; mv copy moved; ln -s words link; ln words hard; readlink link; rm moved; ls; ls a; basename /x/y.c .c; dirname /x/y.c; realpath --relative-to=. a/b
chmod 640 words; stat -c '%a %s %F' words; test -f words && echo file; [ -d a ] && echo folder; [[ x == x* ]] && echo glob
seq 1 5; seq 5 | shuf --random-source=<(yes) | sort -n | tail -1; factor 360; expr 6 \* 7; echo $((1 << 20)); printf '%05d %x %s\n' 42 255 text
date -u -d @0 +%F; TZ=UTC date -d '2026-01-01 + 1 day' +%F; cal -h 2 2026 2>/dev/null | head -1; env -i A=1 env; env A=2 sh -c 'echo $A'
true; echo "$?"; false; echo "$?"; (exit 7); echo "$?"; sh -c 'kill -TERM $$'; echo "$?"; sh -c 'exit 300'; echo "$?"
md5sum words; sha1sum words; sha256sum words; cksum words; b2sum words; base64 words; base64 words | base64 -d; od -c words | head -1; xxd words 2>/dev/null | head -1; hexdump -C words 2>/dev/null | head -1
gzip -nc words | gunzip; bzip2 -c words 2>/dev/null | bunzip2 2>/dev/null; xz -c words | xz -dc; zstd -qc words 2>/dev/null | zstd -dqc 2>/dev/null
split -l 1 words part.; cat part.*; csplit -s words 2; cat xx00; truncate -s 10 big; stat -c %s big; dd if=/dev/zero of=zero bs=1k count=4 status=none; du -b zero; shred -u zero; mktemp -u x.XXXX | wc -c
echo a b | { read -r x y; echo "$y $x"; }; for i in 1 2 3; do echo "$i"; done | while read -r n; do echo "line $n"; done
f() { local v=$1; echo "f $v"; return 3; }; f x; echo "$?"; trap 'echo trapped' USR1; kill -USR1 $$; trap - USR1
(trap 'echo left' EXIT; echo inside); { echo out; echo err >&2; } 2>&1 | sort; echo "${PIPESTATUS[@]}"
exec 9>fd; echo to nine >&9; exec 9>&-; cat fd; cat <<END
here $((2 + 3))
END
cat <<<"a string"; a=(x y z); echo "${#a[@]} ${a[1]}"; declare -A m=([k]=v); echo "${m[k]}"; echo "${HOME##*/}"; s=abcdef; echo "${s:2:3} ${s/cd/XX} ${s^^}"
sleep 0.01 & wait $!; echo "waited $?"; (sleep 30 & k=$!; kill $k; wait $k; echo "killed $?") 2>/dev/null; timeout 0.1 sleep 30; echo "timeout $?"; timeout -s KILL 0.1 sleep 30; echo "killed $?"
nice -n 1 echo nice; nohup echo nohup 2>/dev/null </dev/null; setsid -w echo session; stdbuf -oL echo line; yes | head -n 2; tee copy2 <words | wc -l; mkfifo pipe; (echo through >pipe &); cat pipe
xargs -P 4 -n 1 echo <words | sort; seq 20 | xargs -P 3 -I{} sh -c 'echo {}' | sort -n | tail -n 2; logname 2>/dev/null; id -u; whoami; uname -s; arch; nproc >/dev/null; hostname >/dev/null; tty; pwd | wc -l; umask; ulimit -n >/dev/null; type cd; command -v ls
bc <<<'2^70' 2>/dev/null; dc -e '2 3 + p' 2>/dev/null; printf 'x\0y' | tr '\0' '\n'; echo é | wc -c; echo é | wc -m; install -m 600 words put; stat -c %a put; pr -t words; tsort <<<'a b'; ptx words | head -1; numfmt --to=iec 1048576; pathchk ok; sync words; who -q >/dev/null; flock lock echo locked; getent passwd root | cut -d: -f1; pgrep -x nothing-has-this-name; echo "$?"
