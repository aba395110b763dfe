# SPDX-License-Identifier: Apache-2.0
# Uses a tool of developers: tools.sh NAME FOLDER-OF-THIS-FILE. Prints the same in each run. Runs under bash in an empty folder.
set -u
here=$2
export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z' GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
case $1 in
git)
    git init -q -b main r && cd r || exit 1
    for i in 1 2 3; do echo "$i" >>f; git add f; git commit -qm "c$i"; done
    git checkout -q -b side HEAD~1; echo side >g; git add g; git commit -qm side
    git checkout -q main; git merge -q --no-edit side; git log --oneline --graph; git rebase -q HEAD~1; git stash list; echo x >>f; git stash -q; git stash pop -q; git diff
    git gc -q; git fsck 2>&1; git clone -q . ../s; git -C ../s log -1 --format=%H; git archive HEAD | tar t; git bisect start -q HEAD HEAD~2 >/dev/null; git bisect reset >/dev/null 2>&1 ;;
tar)
    mkdir d; for i in $(seq 50); do seq "$i" >"d/$i"; done
    tar --sort=name --mtime=@0 --owner=0 --group=0 -cf t.tar d; tar --sort=name --mtime=@0 --owner=0 --group=0 -czf t.tgz d
    tar --sort=name --mtime=@0 --owner=0 --group=0 -cJf t.txz d; sha256sum t.tar; mkdir x; tar xzf t.tgz -C x; diff -r d x/d && echo same; tar tJf t.txz | tail -n 1; cpio -o <<<d/1 2>/dev/null | cpio -it 2>/dev/null ;;
make)
    printf 'all: %s\n%%.o:\n\t@echo made $@; sleep 0.01; touch $@\n' "$(seq -s ' ' -f '%g.o' 40)" >Makefile
    make -r -j8 -Otarget | sort; make -r; make -r -n -B 1.o; make -r nothing; echo "$?" ;;
gcc)
    for c in "$here"/../../writer/*/{ring,buf,path,kept_names}.c "$here"/../../preload/*/{glob,parse,schedule}.c; do
        [ -f "$c" ] && gcc -std=gnu11 -D_GNU_SOURCE= -O2 -I "$here/../.." -c "$c" -o "$(basename "$(dirname "$c")")-$(basename "$c" .c).o"
    done
    echo 'int main(void) {return unknown;}' >bad.c; gcc -c bad.c; echo "$?"
    echo '#include <cstdio>
#include <stdexcept>
int main() {try {throw std::runtime_error("thrown");} catch (std::exception &e) {puts(e.what());} throw 1;}' >t.cpp
    g++ -O1 t.cpp -o t && ./t; echo "$?" ;;
perl)
    perl -e 'use threads; my @t = map {my $n = $_; threads->create(sub {$n * $n})} 1..8; print join(",", map {$_->join} @t), "\n";' 2>&1
    perl -e 'if (my $p = fork) {waitpid $p, 0; print $? >> 8, "\n"} else {exit 5}'; perl -MDigest::SHA=sha256_hex -e 'print sha256_hex("x"), "\n"'; perl -e 'local $SIG{ALRM} = sub {print "alarm\n"}; alarm 1; select undef, undef, undef, 3'; perl -ne 'print if /o/' <<<foo ;;
tcl)
    tclsh <<<'puts [expr {2**80}]; puts [exec echo sub]; after 20 {set done 1}; vwait done; puts [clock format 0 -gmt 1 -format %Y]; catch {error bad} e; puts $e; exit 4'; echo "$?" ;;
node)
    cat >w.js <<'END'
const {Worker, isMainThread, parentPort, workerData} = require("worker_threads");
if (!isMainThread) { let s = 0; for (let i = 0; i < 1e6; i++) s += i % (workerData + 2); parentPort.postMessage(s); }
else { let left = 4, sums = []; for (let n = 0; n < 4; n++) new Worker(__filename, {workerData: n}).on("message", m => {
  sums.push(m); if (--left == 0) { console.log(sums.sort().join()); console.log(require("child_process").execSync("echo child").toString().trim());
  require("zlib").gzip("x".repeat(1e5), (e, b) => console.log(b.length)); process.exitCode = 6; }}); }
END
    node w.js; echo "$?" ;;
java)
    mkdir o; cat >T.java <<'END'
import java.util.concurrent.*; import java.util.*;
public class T {
    public static void main(String[] a) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4); List<Future<Long>> all = new ArrayList<>();
        for (int n = 0; n < 8; n++) { final int m = n; all.add(pool.submit(() -> { long s = 0; for (int i = 0; i < 1000000; i++) s += i % (m + 1); return s; })); }
        for (Future<Long> f : all) System.out.println(f.get());
        pool.shutdown();
        try { Object o = null; o.hashCode(); } catch (NullPointerException e) { System.out.println("caught"); }
        System.out.println(deep(0) > 100);
        System.gc(); Process p = new ProcessBuilder("echo", "child").inheritIO().start(); System.out.println(p.waitFor()); System.exit(5);
    }
    static int deep(int n) { try { return deep(n + 1); } catch (StackOverflowError e) { return n; } }
}
END
    if command -v javac >/dev/null; then javac -d o T.java && java -Xmx64m -cp o T; echo "$?"; fi; java -version 2>&1 | wc -l ;;
sqlite)
    sqlite3 t.db 'pragma journal_mode=wal; create table t(a, b); with recursive c(n) as (select 1 union all select n+1 from c where n<20000) insert into t select n, hex(n*n) from c; select count(*), sum(a), max(b) from t; create index i on t(b); select a from t where b > "39" order by b limit 3; pragma integrity_check; select nothing;'; echo "$?" ;;
postgres)
    bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1); chmod 777 . ; d=$PWD/db; mkdir "$d"; chown postgres "$d"
    as() { setpriv --reuid=postgres --regid=postgres --clear-groups env HOME="$d" "$@"; }
    as "$bin/initdb" -D "$d" -A trust --no-sync >/dev/null 2>init.err; echo "$?"; mkdir s; chown postgres s
    as "$bin/pg_ctl" -D "$d" -w -t 60 -o "-k $PWD/s -h '' -F" -l /dev/null start >/dev/null; echo "$?"
    as psql -h "$PWD/s" -At postgres -c 'create table t as select n, md5(n::text) m from generate_series(1, 50000) n; select count(*), min(m), max(m) from t; create index on t(m); set max_parallel_workers_per_gather=2; select count(distinct m) from t;'; echo "$?"
    as "$bin/pg_ctl" -D "$d" -w -t 60 -m fast stop >/dev/null; echo "$?" ;;
tmux)
    tmux -L cprof-test -f /dev/null new-session -d -x 80 -y 24 'echo in tmux >said; exec cat'; for i in $(seq 200); do [ -s said ] && break; sleep 0.05; done
    tmux -L cprof-test send-keys typed Enter; for i in $(seq 200); do tmux -L cprof-test capture-pane -p | grep -c typed | grep -qx 2 && break; sleep 0.05; done
    tmux -L cprof-test capture-pane -p | grep typed; tmux -L cprof-test kill-server; cat said ;;
vim)
    printf 'one\ntwo\n' >f; vim -Nu NONE -es -c '%s/o/0/g' -c 'call append(1, system("echo sub"))' -c 'wq' f; echo "$?"; cat f ;;
esac
