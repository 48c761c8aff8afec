use super::*;

/// Creates a folder with modules that depend on each other.
fn folder(modules: &[(&str, &str)], built_in: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("modules.builtin"), built_in).unwrap();
    for (name, depends) in modules {
        let place = folder.path().join("kernel/net");
        fs::create_dir_all(&place).unwrap();
        let text = format!("\u{7f}ELF\0\0license=GPL\0depends={depends}\0retpoline=Y\0");
        fs::write(place.join(format!("{name}.ko")), text).unwrap();
    }
    folder
}

fn order(folder: &tempfile::TempDir, names: &[&str]) -> Result<Vec<String>> {
    let modules = Index::of(folder.path())?.closure(names)?;
    Ok(modules.into_iter().map(|module| module.name).collect())
}

#[test]
fn what_is_needed_comes_before_those_that_need_it_and_once() {
    let folder = folder(&[("tap", "tun,stp"), ("tun", "stp"), ("stp", ""), ("vhost-net", "tap,tun")], "");
    assert_eq!(order(&folder, &["vhost_net", "tun"]).unwrap(), ["stp", "tun", "tap", "vhost_net"]);
    assert_eq!(order(&folder, &["vhost-net"]).unwrap().len(), 4);
}

#[test]
fn what_is_built_in_is_not_loaded() {
    let folder = folder(&[("tun", "unix-socket")], "kernel/net/unix-socket.ko\n");
    assert_eq!(order(&folder, &["tun", "unix_socket"]).unwrap(), ["tun"]);
}

#[test]
fn modules_that_are_not_there_and_circles_are_errors() {
    let folder = folder(&[("a", "b"), ("b", "a"), ("c", "d")], "");
    assert!(order(&folder, &["nothing"]).unwrap_err().to_string().contains("no module nothing"));
    assert!(order(&folder, &["c"]).unwrap_err().to_string().contains("no module d"));
    assert!(order(&folder, &["a"]).unwrap_err().to_string().contains("needs itself"));
}
