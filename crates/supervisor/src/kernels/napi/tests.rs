use super::*;

fn thread(interface: &str, napi: u32, tid: i32) -> NapiThread {
    NapiThread { interface: interface.to_owned(), napi, tid, name: format!("napi/{interface}-{napi}") }
}

/// Imitates `/proc` with kernel threads by ID; ID 7 has been reused by another thread.
fn proc(_: i32, tid: i32) -> Option<String> {
    let name = match tid {
        4 => "napi/lan-8193",
        5 => "napi/wan-8200",
        6 => "napi/wan-8194",
        7 => "kworker/0:1",
        _ => return None,
    };
    let [before, after] = [17, 16].map(|fields| "0 ".repeat(fields));
    Some(format!("{tid} ({name}) S 2 {before}{} {after}1\n", 5000 + tid))
}

#[test]
fn threads_are_numbered_for_each_nic_by_their_napi_ids() {
    let threads = vec![
        thread("wan", 8200, 5),
        thread("lan", 8193, 4),
        thread("wan", 8194, 6),
        thread("old", 8195, 7),
        thread("gone", 8196, 8),
    ];
    let napis = of_router("edge", threads, proc);
    let names: Vec<(&str, i32)> = napis.iter().map(|napi| (napi.name.as_str(), napi.task.tid)).collect();
    assert_eq!(names, [("edge/lan-napi0", 4), ("edge/wan-napi0", 6), ("edge/wan-napi1", 5)]);
    assert_eq!(napis[0].shown(), api::Thread { name: "edge/lan-napi0".to_owned(), tid: 4 });
}

#[test]
fn a_thread_that_runs_has_time_and_its_part_of_the_frames() {
    let own = std::process::id().cast_signed();
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    // The kernel accounts CPU time at ticks and when a thread sleeps.
    std::thread::sleep(std::time::Duration::from_millis(1));
    let napi = |name: &str, nic: &str| Napi {
        name: format!("edge/{name}"),
        nic: nic.to_owned(),
        // This thread stands for a kernel thread.
        task: ThreadIdentity::look(own, tid).expect("it runs"),
    };
    let napis = [napi("wan-napi0", "wan"), napi("wan-napi1", "wan"), napi("lan-napi0", "lan")];
    let mut counted = Counted::default();
    counted.counters.insert("edge.wan.rx.frames".to_owned(), 101);
    count("edge", &napis, &mut counted);
    let get = |name: &str| counted.counters[name];
    assert_eq!(
        ["edge/wan-napi0.frames", "edge/wan-napi1.frames", "edge/lan-napi0.frames"].map(get),
        [50, 50, 0]
    );
    assert!(counted.cpu_ns["edge/wan-napi0"] > 0 && counted.counters.contains_key("edge/lan-napi0.sleeps"));
}

#[test]
fn a_thread_that_has_ended_has_no_counters() {
    let task = std::thread::spawn(|| {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        ThreadIdentity::look(std::process::id().cast_signed(), tid).expect("it runs")
    });
    let task = task.join().expect("it ends");
    while task.is_there() {
        std::thread::yield_now();
    }
    let napi = Napi { name: "edge/wan-napi0".to_owned(), nic: "wan".to_owned(), task };
    let mut counted = Counted::default();
    count("edge", &[napi], &mut counted);
    assert_eq!(counted, Counted::default());
}
