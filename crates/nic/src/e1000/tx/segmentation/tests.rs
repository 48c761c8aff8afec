use super::*;

const LONGEST: usize = 1518;

/// Returns a context for TCP over IPv4, both without options.
fn tcp4() -> Context {
    Context {
        ip_start: 14,
        ip_offset: 24,
        ip_end: 33,
        tcp_start: 34,
        tcp_offset: 50,
        payload: 3000,
        command: ring::e1000::tx::TCP | ring::e1000::tx::IP,
        header: 54,
        mss: 1000,
        ..NO_CONTEXT
    }
}

const BOTH: RequestedChecksums = RequestedChecksums { ip: true, transport: true };

fn nonsense(context: Context) -> Option<SegmentationError> {
    Segmentation::new(context, BOTH, LONGEST).err()
}

#[test]
fn header_lengths_that_contradict_each_other_are_nonsense() {
    let tcp6 = Context { command: ring::e1000::tx::TCP, tcp_start: 54, header: 74, ..tcp4() };
    let udp4 = Context { command: ring::e1000::tx::IP, header: 42, ..tcp4() };
    let any = Context { command: 0, ip_start: 255, tcp_start: 255, header: 14, ..tcp4() };
    for good in [tcp4(), tcp6, udp4, any] {
        assert_eq!(nonsense(good), None);
        let short = Context { header: good.header - 1, ..good };
        assert_eq!(nonsense(short), Some(SegmentationError::Lengths), "{short:?}");
        for none in
            [Context { mss: 0, ..good }, Context { payload: 0, ..good }, Context { header: 0, ..good }]
        {
            assert_eq!(nonsense(none), Some(SegmentationError::Lengths));
        }
    }
    for (ip_start, tcp_start) in [(35, 34), (14, 35), (255, 34), (14, 255)] {
        assert_eq!(nonsense(Context { ip_start, tcp_start, ..tcp4() }), Some(SegmentationError::Lengths));
    }
}

#[test]
fn a_segment_longer_than_a_frame_is_nonsense_of_its_own() {
    let fits = Context { mss: (LONGEST - 54) as u16, ..tcp4() };
    assert_eq!(nonsense(fits), None);
    assert_eq!(nonsense(Context { mss: fits.mss + 1, ..fits }), Some(SegmentationError::TooLong));
    // A larger MSS than the payload is harmless.
    assert_eq!(nonsense(Context { mss: 0xffff, payload: 1464, ..fits }), None);
    assert_eq!(nonsense(Context { mss: 0xffff, payload: 1465, ..fits }), Some(SegmentationError::TooLong));
}

#[test]
fn the_header_comes_in_any_pieces() {
    let mut segmentation = Segmentation::new(tcp4(), BOTH, LONGEST).unwrap();
    for piece in [1, 20, 33] {
        assert_eq!(segmentation.header(), None);
        segmentation.missing_header()[..piece].fill(piece as u8);
        segmentation.add_header(piece);
    }
    assert!(segmentation.missing_header().is_empty());
    assert_eq!(segmentation.header().unwrap(), [&[1; 1][..], &[20; 20], &[33; 33]].concat());
}

#[test]
fn room_is_what_both_limits_leave() {
    let mut segmentation = Segmentation::new(tcp4(), BOTH, LONGEST).unwrap();
    assert_eq!((segmentation.room(0), segmentation.room(900), segmentation.room(1000)), (1000, 100, 0));
    segmentation.add_payload(2500);
    assert_eq!((segmentation.room(0), segmentation.room(900), segmentation.left()), (500, 100, 500));
    segmentation.add_payload(500);
    assert_eq!((segmentation.room(0), segmentation.left()), (0, 0));
}
