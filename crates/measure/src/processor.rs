//! Identification of the processor, from `/proc/cpuinfo`.

/// Returns the value of the first line `key : value`, the format of files in /proc.
pub fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, value)| (name.trim(), value.trim()))
        .find(|&(name, _)| name == key)
        .map(|(_, value)| value)
}

/// Model name, with family and model number: cloud providers give several processors the same name.
pub fn name(cpuinfo: &str) -> String {
    let get = |key| field(cpuinfo, key).unwrap_or("unknown");
    format!("{} (family {} model {})", get("model name"), get("cpu family"), get("model"))
}

#[cfg(test)]
mod tests;
