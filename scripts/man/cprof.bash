# SPDX-License-Identifier: Apache-2.0
# Completes the command cprof in bash. Made by scripts/lint/gen_man.py.
_cprof() {
    local word=${COMP_WORDS[COMP_CWORD]} words=
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "run env doctor open merge ranks recover trigger top compare explain hang report events summarize export sql check stacks memory memory-timeline --help --version" -- "$word"))
        return
    fi
    case ${COMP_WORDS[1]} in
        run) words="--help --library --quiet --help-all --skip-first --wait --warmup --active --repeat --skip-first-wait --no-skip-first-wait --schedule-scope --steps --step --folder --filename --run-name --overwrite --no-overwrite --use-gzip --no-use-gzip --num-traces-to-keep --remote-file-name --remote-url --tensorboard-dir --tensorboard-worker --on-trace-ready --upload-deadline-ms --trace-handlers --activities --gpu-graphs --gpu-telemetry --no-gpu-telemetry --record-shapes --no-record-shapes --profile-memory --no-profile-memory --with-stack --no-with-stack --native-stack --no-native-stack --stack-args --max-stacks --with-flops --no-with-flops --with-modules --no-with-modules --peak-tflops --trace-children --no-trace-children --trigger --torch-path --flight --flight-what --flight-slow --flight-hang-s --metrics --enabled --no-enabled --log --ring-kb --gpu-buffer-kb --gpu-dump --max-trace-mb --summary-mb --drain-deadline-ms" ;;
        env) words="--help --library --help-all --skip-first --wait --warmup --active --repeat --skip-first-wait --no-skip-first-wait --schedule-scope --steps --step --folder --filename --run-name --overwrite --no-overwrite --use-gzip --no-use-gzip --num-traces-to-keep --remote-file-name --remote-url --tensorboard-dir --tensorboard-worker --on-trace-ready --upload-deadline-ms --trace-handlers --activities --gpu-graphs --gpu-telemetry --no-gpu-telemetry --record-shapes --no-record-shapes --profile-memory --no-profile-memory --with-stack --no-with-stack --native-stack --no-native-stack --stack-args --max-stacks --with-flops --no-with-flops --with-modules --no-with-modules --peak-tflops --trace-children --no-trace-children --trigger --torch-path --flight --flight-what --flight-slow --flight-hang-s --metrics --enabled --no-enabled --log --ring-kb --gpu-buffer-kb --gpu-dump --max-trace-mb --summary-mb --drain-deadline-ms" ;;
        doctor) words="--help --library" ;;
        open) words="--help --offline --no-browser --keep --port" ;;
        merge) words="--help --output --force --ranks --steps --only --large --manifest --jobs" ;;
        ranks) words="--help --json --steps" ;;
        recover) words="--help --output --delete --force" ;;
        trigger) words="--help --all-ranks --steps --from --seconds --last --status --timeout" ;;
        top) words="--help --sort-by --row-limit --torch --group-by-input-shape --group-by-stack-n --include-python-functions --from-trace --by --compare --json --csv" ;;
        compare) words="--help --fail-above --row-limit --json --markdown" ;;
        explain) words="--help --engine --jobs --json" ;;
        hang) words="--help --json" ;;
        report) words="--help --output" ;;
        events) words="--help --name --category --step --device --thread" ;;
        summarize) words="--help --engine --jobs --output" ;;
        export) words="--help --engine --jobs --output --parquet" ;;
        sql) words="--help --row-limit --json --csv" ;;
        check) words="--help --engine --jobs --strict --json --quiet" ;;
        stacks) words="--help --output --metric" ;;
        memory) words="--help --device --row-limit --json" ;;
        memory-timeline) words="--help --output --device" ;;
    esac
    case $word in
        -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}
complete -o filenames -F _cprof cprof
