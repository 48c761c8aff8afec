use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Length, run};

/// A script in a file that goes away with the value.
struct Script(PathBuf);

impl Script {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ringroad-lab-peer-{name}-{}.sh", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn length(limit_ms: u64) -> Length {
    Length { repeat: 3, seconds: 2, limit: Duration::from_millis(limit_ms) }
}

#[test]
fn results_are_found_among_other_output() {
    let script = Script::new(
        "good",
        "echo some words\necho RESULT name=a unit=mpps median=1.5 min=1 max=2 n=$REPS\n\
         echo RESULT name=b unit=mpps median=$SECS min=1 max=2 n=1 c2c_ns=90\n",
    );
    let results = run(&script.0, length(10_000)).unwrap();
    assert_eq!(results.len(), 2);
    assert_eq!((results[0].name.as_str(), results[0].median, results[0].n), ("a", 1.5, 3));
    assert_eq!((results[1].median, results[1].get("c2c_ns")), (2.0, Some("90")));
}

#[test]
fn a_script_that_fails_is_quoted() {
    let script = Script::new("bad", "echo no huge pages\nexit 3\n");
    let error = run(&script.0, length(10_000)).unwrap_err().to_string();
    assert!(error.contains("no huge pages") && error.contains('3'), "{error}");
    let script = Script::new("silent", "true\n");
    assert!(run(&script.0, length(10_000)).unwrap_err().to_string().contains("printed no result"));
    assert!(run("/no/such/script".as_ref(), length(1)).unwrap_err().to_string().contains("no script"));
}

#[test]
fn a_script_that_does_not_end_is_asked_to() {
    let script = Script::new("slow", "trap 'exit 0' TERM\nfor i in $(seq 600); do sleep 0.05; done\n");
    let start = Instant::now();
    let error = run(&script.0, length(200)).unwrap_err().to_string();
    assert!(error.contains("took longer"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(9));
}
