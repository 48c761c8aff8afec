use super::*;

#[test]
fn the_available_memory_is_read_in_mib() {
    assert_eq!(read("MemTotal: 9 kB\nMemAvailable:    2048 kB\nCached: 1 kB\n").unwrap(), 2.0);
    assert!(read("MemTotal: 9 kB\n").is_err());
    assert!(available().unwrap() > 0.0);
}
