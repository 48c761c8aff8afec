//! Outlines carried out and undone on a real kernel. If this host lacks what a test needs, the test says so
//! and is skipped.

mod host;
mod worker;

mod alone {
    mod exclusive;
    mod groups;
    mod interrupts;
    mod napi;
    mod numbers;
    mod places;
}
