# SPDX-License-Identifier: Apache-2.0
"""Ways in which a preloaded profiler can harm its host or mislead its reader, and the tests against each. Each was seen to happen."""

import re
import subprocess

import pytest

from conftest import ROOT
from support import LIBRARY

# unit: tests/unit/ROOM/test_NAME.c, e2e: tests/e2e/test_NAME.py
HARMS = {
    "a call reaches another copy of a library than the caller's": [
        "e2e hooks each_caller_reaches_its_own_runtime", "e2e hooks program_linked_to_two_runtimes_calls_each",
        "e2e collectives each_caller_reaches_its_own_nccl", "e2e blas blas_arguments_reach_the_callers_own_copy"],
    "a closed plugin stays loaded, or its calls reach the plugin that replaced it": [
        "e2e blas plugin_is_unloaded_and_replaced", "unit resolve lets_objects_in_the_callers_scope_unload"],
    "a library that the profiler needs replaces the program's": [
        "e2e hooks extension_loads_its_own_zlib", "e2e settings library_needs_libc_only"],
    "a child hangs because another thread held torch's lock or the loader's during the fork": [
        "e2e odd_moments forked_children_can_load_libraries", "e2e process forks_during_callback_changes_do_not_hang", "e2e harmless forked_workers_neither_hang_nor_leave_files"],
    "the profiler writes to a descriptor that now belongs to the program": [
        "e2e exit writes_to_no_descriptor_after_all_were_closed", "e2e exit no_file_is_kept_open", "e2e faults recording_continues_after_all_descriptors_were_closed",
        "e2e faults program_never_sees_cprofs_descriptors", "unit io_thread uses_a_descriptor_table_of_its_own", "unit io_thread keeps_the_programs_file_locks",
        "e2e stacks generated_code_ends_the_stack_safely", "e2e trigger listens_after_the_program_closed_all_descriptors"],
    "a malloc hook or an unwinder opens its descriptors in the profiler's own descriptor table": ["e2e coexist malloc_hook_that_opens_a_pipe_keeps_its_descriptors"],
    "the program's thread-local storage leaves the profiler's threads too little stack": ["e2e settings records_with_large_thread_local_storage"],
    "forced memory profiling slows every thread and shows in the program's own tables": [
        "e2e harmless leaves_torch_profilers_table_alone", "e2e torch_profiler tensor_memory_is_the_same"],
    "a vfork child, or one that cannot exec, finishes the parent's trace": [
        "e2e process failing_vfork_child_leaves_the_parent_alone", "e2e process vfork_child_does_not_finish_the_trace",
        "e2e exit failing_subprocess_does_not_finish_the_trace", "e2e exit end_is_that_of_the_unprofiled_run"],
    "another client of CUPTI gets no records": [
        "e2e gpu_clients steps_aside_for_a_client_in_mid_window", "e2e gpu_clients client_sessions_and_windows_in_turn",
        "e2e gpu_clients late_buffers_do_not_reach_the_client"],
    "a launch is recorded twice or not at all": [
        "e2e gpu everything_launched_is_recorded_once_and_joined", "e2e hooks hook_rows_match_the_cuda_headers",
        "e2e flops no_operation_is_counted_twice"],
    "the first active step misses operators": [
        "e2e steps every_step_has_all_operators", "e2e torch_profiler holds_no_operator_of_other_steps"],
    "the writing thread starves on the program's own core": ["unit writer_failures cprof_thread_blocks_signals_and_resets_affinity",
                                                            "e2e exit cprofs_threads_take_no_signals"],
    "redirected calls of torch break another profiler, or an exception that passes through them": [
        "e2e torch_path both_paths_record_the_same", "e2e torch_path keeps_an_entry_written_by_other_code", "e2e torch_path_attacks other_profilers_forks_and_limits_change_nothing",
        "e2e torch_path_attacks observers_come_and_go_inside_windows", "e2e torch_path_attacks exceptions_pass_through",
        "e2e torch_path_attacks extensions_open_and_close_during_windows", "e2e torch_path_attacks keeps_entries_sealed_by_the_loader"],
    "a step cuts the program's ranges": ["unit window steps_have_a_row_of_their_own", "e2e torch_profiler traces_pass_the_strict_validator"],
    "times lose their nanoseconds in readers": ["unit clock base_is_the_floor_to_30_days"],
    "the program waits for running GPU work, or the work is lost": [
        "e2e gpu kernel_that_outlives_its_window_is_in_its_trace", "e2e gpu long_kernel_does_not_hold_up_the_program",
        "e2e gpu_faults late_or_shuffled_records_lose_nothing"],
    "the cause of an event is known only after the event": ["unit emit marks_spans_inside_operators_with_flops",
                                                            "e2e gpu gpu_work_has_the_innermost_ranges_id"],
    "the open file is torn when its head or end changes": ["unit sink rejects_a_head_of_another_size", "e2e exit shorter_trailer_leaves_no_old_bytes",
                                                           "unit sink kill_leaves_the_old_or_the_new_trace"],
    "the wall clock is slewed or set": [
        "unit clock follows_a_slewed_wall_clock", "unit clock clock_step_changes_no_duration", "unit clock ticks_never_go_back",
        "unit clock_map survives_a_clock_set_back", "unit clock_map survives_a_clock_set_forward"],
    "children and launchers take themselves for ranks": [
        "e2e ranks torchrun_leaves_one_trace_per_rank_and_cycle", "e2e ranks spawned_children_with_rank_variables", "e2e exit child_programs_are_traced_as_their_own_ranks",
        "unit config keeps_values_after_the_environment_changes"],
    "a signal or an exit comes in the middle of the profiler's work": [
        "e2e trigger keeps_an_ignored_signal_ignored", "e2e trigger reinstalls_its_handler_after_a_reset",
        "e2e odd_moments handler_that_ends_a_thread_leaves_no_lock",
        "e2e exit cprofs_threads_take_no_signals", "e2e process exit_from_a_signal_handler_leaves_a_readable_file", "e2e faults thousands_of_signals_lose_nothing",
        "e2e odd_moments exit_from_a_handler_inside_malloc",
        "e2e odd_moments exit_from_a_handler_on_a_small_stack",
        "e2e odd_moments steps_marked_in_a_handler_inside_a_step_mark",
        "e2e odd_moments marks_in_a_handler_do_not_corrupt_operators",
        "e2e odd_moments cancelling_the_thread_that_starts_cprof",
        "e2e odd_moments cancelling_a_thread_that_marks_a_step",
        "e2e odd_moments cancelling_a_thread_during_a_stack_walk",
        "e2e gpu_faults hanging_flush_does_not_hold_up_the_exit", "e2e faults exit_does_not_wait_for_a_stuck_thread"],
    "switching CUPTI on late loses graphs": ["e2e gpu whole_graphs_made_before_the_window_are_recorded",
                                             "e2e gpu graph_nodes_name_the_capturing_operator",
                                             "e2e gpu activity_kinds_are_off_between_windows",
                                             "e2e consumers torch_rules_excuse_events_recorded_before_the_window"],
    "a trace replaces another trace": ["unit run_names ranks_share_the_start_of_their_launch", "e2e ranks elastic_restart_keeps_all_traces",
                                     "unit sink finish_refuses_an_existing_name", "e2e files traces_of_an_earlier_run_stop_the_recording"],
    "readers take another file for a trace, or a process for a GPU": ["e2e exit only_traces_end_in_json_or_gz",
                                                                      "unit window shifts_small_pids_of_containers"],
    "redirected functions lose arguments": ["e2e step_names passes_arguments_and_results_through", "e2e step_names marks_steps_with_every_way_of_linking"],
    "a foreign trace takes memory by its size": ["unit import merges_a_large_file_in_little_memory"],
    "exported names make probes succeed, or lose hidden arguments": [
        "e2e hooks weak_probe_without_a_runtime_gets_an_error", "e2e blas blas_arguments_reach_the_callers_own_copy",
        "e2e harms thread_local_memory_is_small"],
    "the host sees the programs that the profiler starts": [
        "unit spawn hides_the_child_from_the_host", "e2e after program_sees_no_child_while_a_command_runs", "e2e after command_runs_without_libcprof"],
    "the environment changes while the profiler reads it": ["unit post_save copies_the_environment_while_it_changes"],
    "threads of few events take memory": [
        "e2e odd_moments thread_of_one_event_takes_little_memory", "unit thread_log uses_no_huge_pages"],
    "the profiler uses up the process's limit of mappings": ["unit thread_log many_threads_take_few_mappings"],
    "the profiler uses up a limited address space": [
        "e2e settings limited_address_space_is_left_to_the_program", "unit thread_log takes_little_of_a_limited_address_space",
        "e2e odd_moments threads_leave_room_in_a_limited_address_space"],
    "step 0 of every run takes memory and time": ["unit writer step_0_drops_its_oldest_half_when_full",
                                                  "e2e exit run_without_marks_keeps_at_most_64_mb"],
    "the profiler's threads keep a program alive": ["e2e exit program_ends_after_main_thread_left",
                                                    "e2e exit sigterm_ends_a_program_without_main_thread"],
    "messages go into a file of the program, or block it": ["e2e exit writes_no_lines_into_a_file_at_descriptor_2",
                                                                     "e2e exit full_stderr_pipe_does_not_block_the_exit"],
    "a trace replaces a device or a FIFO": ["e2e export export_into_a_device", "e2e export export_into_a_fifo"],
}


@pytest.mark.parametrize("harm", HARMS)
def test_each_harm_has_its_tests(harm):
    """The named tests exist; unit tests are also in a test case."""
    for test in HARMS[harm]:
        kind, name, function = test.split()
        path, = (ROOT / "tests/unit").rglob(f"test_{name}.c") if kind == "unit" else [ROOT / f"tests/e2e/test_{name}.py"]
        text = path.read_text()
        if kind == "unit":
            assert f"START_TEST({function})" in text and re.search(rf"tcase_add_(loop_)?test\(\w+, {function}\b", text), test
        else:
            assert f"\ndef test_{function}(" in text, test


def test_thread_local_memory_is_small():
    """The library's static TLS and that of all libraries loaded later share about 1600 bytes."""
    lines = subprocess.run(["readelf", "-lW", LIBRARY], capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    size, = [int(line.split()[5], 16) for line in lines if line.split()[:1] == ["TLS"]]
    assert 0 < size <= 256
