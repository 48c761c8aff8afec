use std::time::Instant;

use super::*;

/// Number of this thread.
fn tid() -> i32 {
    // SAFETY: the call has no argument and cannot fail.
    unsafe { libc::gettid() }
}

#[test]
fn a_thread_that_works_is_charged_for_it_and_one_that_sleeps_is_not() {
    let (sleeper, told) = {
        let (tell, told) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            tell.send(tid()).expect("somebody waits");
            std::thread::park();
        });
        (sleeper, told.recv().expect("its number"))
    };
    let before = (of_thread(tid()), of_thread(told), of_process(std::process::id() as i32));
    let start = Instant::now();
    while of_thread(tid()) - before.0 < Duration::from_millis(20) {
        assert!(start.elapsed() < Duration::from_secs(60), "no time was charged");
    }
    assert!(of_process(std::process::id() as i32) - before.2 >= Duration::from_millis(20));
    assert!(of_thread(told) - before.1 < Duration::from_millis(10), "it sleeps");
    sleeper.thread().unpark();
    sleeper.join().expect("it ends");
}

#[test]
fn who_is_gone_has_no_time() {
    // Beyond the kernel's largest process number.
    assert_eq!((of_thread(1 << 23), of_process(1 << 23)), (Duration::ZERO, Duration::ZERO));
}
