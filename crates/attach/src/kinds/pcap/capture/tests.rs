//! The `pcap:` port in the conformance suite that every port passes, with a real file that is read back.

use std::cell::Cell;
use std::io::Read;
use std::os::fd::OwnedFd;

use conformance::{SinkBench, check_sink};
use port::replay::Reader;

use super::*;

struct Bench {
    port: Arc<dyn Sink>,
    capture: Capture,
    file: tempfile::NamedTempFile,
    /// Number of frames of the file that were checked.
    read: usize,
}

impl Bench {
    fn new(limits: Limits) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let reopened = file.reopen().expect("it is there");
        let (port, capture) = within(reopened, &Arc::default(), limits).expect("a capture");
        Self { port, capture, file, read: 0 }
    }
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &*self.port
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        self.capture.write_out();
        let mut reader = Reader::new(self.file.reopen().expect("it is there")).expect("a capture");
        let mut all = Vec::new();
        while let Some(frame) = reader.next_frame().expect("a whole file") {
            assert!(frame.whole, "a frame was cut");
            all.push(frame.octets.to_vec());
        }
        let new = all.split_off(self.read);
        self.read += new.len();
        Some(new)
    }

    fn lost(&self) -> u64 {
        let counters = self.capture.counters();
        counters.drop_full.get() + counters.drop_failed.get()
    }
}

#[test]
fn a_capture_is_a_sink() {
    check_sink(|| Bench::new(Limits::default()));
}

#[test]
fn a_capture_whose_buffer_is_short_counts_what_it_has_no_room_for() {
    let lost = Cell::new(0);
    let limits = Limits { buffer: 64 << 10, ..Limits::default() };
    struct Short<'l>(Bench, &'l Cell<u64>);
    impl SinkBench for Short<'_> {
        fn sink(&self) -> &dyn Sink {
            self.0.sink()
        }

        fn received(&mut self) -> Option<Vec<Vec<u8>>> {
            self.0.received()
        }

        fn lost(&self) -> u64 {
            self.1.set(self.1.get().max(self.0.lost()));
            self.0.lost()
        }
    }
    check_sink(|| Short(Bench::new(limits), &lost));
    assert!(lost.get() > 0, "the buffer was never full");
}

#[test]
fn the_thread_that_writes_the_file_closes_it() {
    let (mut reader, file) = std::io::pipe().expect("a pipe");
    let file = File::from(OwnedFd::from(file));
    let (_port, _capture, writer) = into("edge", file, Confinement::Off).expect("a capture");
    drop(writer);
    // A read of a pipe that is still open for writing would fail.
    rustix::io::ioctl_fionbio(&reader, true).expect("a pipe");
    let mut octets = Vec::new();
    reader.read_to_end(&mut octets).expect("it is closed");
    assert_eq!(octets.len(), 24, "the head of a capture");
}
