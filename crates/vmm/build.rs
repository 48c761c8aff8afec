//! Builds the firmware (an ordinary static ELF for the host's own target) twice, and stores it in
//! `OUT_DIR/firmware` and, with buffers for jumbo frames, in `OUT_DIR/firmware-jumbo`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// No libc, no start files, no relocation: linked to the address that `bootinfo::map::IMAGE` gives.
const FLAGS: &str = "-C link-arg=-nostdlib -C link-arg=-static -C relocation-model=static \
                     -C link-arg=-Wl,--image-base=0x200000 -C force-frame-pointers=no -C target-cpu=x86-64-v2";

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = manifest.join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    // Not the folders as a whole: a property test that fails leaves its seed in the folder of its crate.
    for part in [
        "guest",
        "crates/ring",
        "crates/fib",
        "crates/router",
        "crates/station",
        "crates/frame",
        "crates/bootinfo",
        "crates/ledger",
    ] {
        for input in ["src", "Cargo.toml"] {
            println!("cargo::rerun-if-changed={}", root.join(part).join(input).display());
        }
    }
    println!("cargo::rerun-if-changed={}", root.join("guest/Cargo.lock").display());
    // `TARGET/PROFILE/build/PACKAGE/out`: the profiles of the host's programs share one build of each firmware.
    let target = out.ancestors().nth(4).expect("cargo's output folder");
    for (name, features) in [("firmware", ""), ("firmware-jumbo", "jumbo")] {
        let target = target.join(name);
        build(&root.join("guest"), &target, features);
        let image = target.join(TARGET).join("release/guest");
        fs::copy(image, out.join(name)).expect("the firmware was built");
    }
}

fn build(guest: &Path, target: &Path, features: &str) {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--release", "--locked", "--target", TARGET, "--manifest-path"])
        .arg(guest.join("Cargo.toml"));
    cargo.args(["--features", features]).arg("--target-dir").arg(target).env("RUSTFLAGS", FLAGS);
    for variable in ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env_remove(variable);
    }
    // A profile changed for the host's programs must not apply to the firmware, which needs its own profile
    // to link.
    for (variable, _) in env::vars_os() {
        if variable.to_string_lossy().starts_with("CARGO_PROFILE_") {
            cargo.env_remove(variable);
        }
    }
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "the firmware did not build");
}
