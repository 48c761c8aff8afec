//! Replays the stored inputs of this crate's fuzz targets.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/frames.rs"]
mod frames;

#[test]
fn any_frames_are_counted_and_no_buffer_is_lost() {
    corpus::replay("frames", frames::run);
}
