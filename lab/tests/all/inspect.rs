//! `inspect:` steps on a real kernel: values read from the memory of a running guest, and errors.

use crate::outcome::result;
use lab::results::Status;

/// Runs one `inspect:` step, checks the status of the scenario, and returns the step's detail.
fn asked(questions: &str, status: Status) -> String {
    let result = result(&format!("steps:\n  - load: statickeys\n  - inspect: [ {questions} ]\n"));
    assert_eq!(result.status, status, "{}", result.reason);
    result.steps[1].detail.clone()
}

#[test]
fn values_of_the_kernel_and_of_a_module() {
    let detail = asked(
        "{ value: init_task.comm, is: swapper/0 }, { value: init_task.pid, is: 0 }, \
         { value: init_task.thread_group_leader, capture: x }",
        Status::Failed,
    );
    assert_eq!(
        detail,
        "init_task.thread_group_leader: `struct task_struct` has no member `thread_group_leader`, in `init_task`"
    );
    let detail = asked(
        "{ value: init_task.comm, is: swapper/0 }, { value: '&init_task', capture: init }, \
         { value: init_task.group_leader, is: '${init}', symbol: init_task }, \
         { value: '*init_task.group_leader.group_leader.comm', is: swapper/0 }",
        Status::Failed,
    );
    assert!(detail.contains("no pointer"), "{detail}");
    let detail = asked(
        "{ value: init_task.comm, is: swapper/0 }, { value: '&init_task', capture: init }, \
         { value: init_task.group_leader, is: '${init}', symbol: init_task }, { value: vfs_write, symbol: vfs_write }, \
         { value: linux_banner, capture: banner }, { value: linux_banner, is: '${banner}' }, \
         { value: __this_module.name, is: statickeys }, { tasks: init, is: 1 }",
        Status::Passed,
    );
    assert!(detail.contains("init_task.comm = swapper/0"), "{detail}");
}

#[test]
fn what_has_no_answer_or_another_is_named() {
    let detail = asked(
        "{ value: no_such_symbol, is: 1 }, { value: init_task.comm, is: swapper/1 }, \
         { value: vfs_write, symbol: vfs_read }, { value: init_task, is: 1 }, { value: init_task.mm.pgd, is: 1 }, \
         { value: 'init_task.comm[16]', is: 0 }, { value: init_task.pid.x, is: 0 }, { value: 'init_task[1]', is: 0 }, \
         { tasks: nobody, is: 1 }, { value: init_task.pid, is: '${never}' }",
        Status::Failed,
    );
    let lines: Vec<&str> = detail.lines().collect();
    let expect = [
        "no_such_symbol: there is no symbol `no_such_symbol` in this kernel and its modules",
        "init_task.comm: expected swapper/1, found swapper/0",
        "vfs_write: expected it to point at `vfs_read`, found 0x",
        "init_task: `init_task` is `struct task_struct`, no single value",
        "init_task.mm.pgd: cannot read `init_task.mm.pgd`",
        "init_task.comm[16]: `init_task.comm` has 16 elements, and [16] is out of range",
        "init_task.pid.x: `init_task.pid` is `pid_t`, which has no members",
        "init_task[1]: `init_task` is `struct task_struct`, which has no elements",
        "tasks called `nobody`: expected 1, found 0",
        "init_task.pid: no step has captured `never`",
    ];
    assert_eq!(lines.len(), expect.len(), "{detail}");
    for (line, expect) in lines.iter().zip(expect) {
        assert!(line.starts_with(expect), "expected `{expect}`, found `{line}`");
    }
}
