use clap::CommandFactory;
use config::Setting;

/// Returns true if a line of this text explains the setting.
fn is_explained(text: &str, setting: &Setting) -> bool {
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(setting.name.as_str())
            && line.contains(setting.value)
            && line.contains(setting.does)
    })
}

#[test]
fn the_help_has_every_key_that_can_be_set_and_no_other() {
    let mut command = crate::Command::command();
    let help = command.find_subcommand_mut("set").expect("the verb").render_long_help().to_string();
    let (_, keys) = help.split_once("Keys and what they take").expect("the keys");
    for setting in &Setting::all() {
        assert!(is_explained(keys, setting), "{} is not in {keys}", setting.name);
    }
    assert_eq!(keys.lines().filter(|line| line.starts_with("  ")).count(), Setting::all().len(), "{keys}");
}
