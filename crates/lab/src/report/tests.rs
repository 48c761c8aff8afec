use std::collections::BTreeMap;
use std::path::Path;

use super::{Record, Verdict, append};
use crate::host::Host;
use crate::ledger_snapshot::Snapshot;

fn record() -> Record {
    Record {
        id: "forward".to_owned(),
        case: "kvm/virtio-net/64".to_owned(),
        unit: "mpps".to_owned(),
        samples: vec![1.0, 2.0],
        median: Some(1.5),
        ci95: None,
        c2c_ns: vec![[90.0, f64::NAN], [450.0, 460.0]],
        near: None,
        far: Some([2.0, 2.0, 2.0, 1.0]),
        more: BTreeMap::from([("generator_mpps".to_owned(), 200.0)]),
        ledger: Snapshot::new(),
        verdict: Verdict::NotRun,
        why: "nothing is asked".to_owned(),
        host: Host::describe(),
        commit: "abc".to_owned(),
        date: "2026-11-21T00:00:00Z".to_owned(),
    }
}

#[test]
fn records_are_appended_one_a_line() {
    let path = std::env::temp_dir().join(format!("ringroad-lab-report-{}.jsonl", std::process::id()));
    append(&path, &record()).unwrap();
    append(&path, &record()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(text.lines().count(), 2);
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["case"], "kvm/virtio-net/64");
        assert_eq!(value["verdict"], "not-run");
        assert_eq!(value["c2c_ns"][0][1], serde_json::Value::Null);
        assert_eq!(value["far"][3], 1.0);
        assert!(value["host"]["kernel"].is_string());
    }
}

#[test]
fn a_full_disk_and_a_missing_folder_are_one_line_each() {
    let full = append(Path::new("/dev/full"), &record()).unwrap_err();
    assert!(format!("{full:#}").starts_with("cannot write /dev/full: No space left"), "{full:#}");
    let missing = append(Path::new("/no/such/folder/x"), &record()).unwrap_err();
    assert!(format!("{missing:#}").starts_with("cannot open /no/such/folder/x"), "{missing:#}");
}
