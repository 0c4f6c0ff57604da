//! Names that are almost right.

/// The name in `known` that is closest to `found`, if one is close enough.
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let wanted = plain(found);
    known
        .into_iter()
        .map(|name| {
            let candidate = plain(name);
            let likeness = if candidate == wanted { 2.0 } else { strsim::jaro_winkler(&wanted, &candidate) };
            (name, likeness)
        })
        .filter(|(_, likeness)| *likeness > 0.8)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_is_close_is_meant() {
        assert_eq!(nearest("etho", ["lo", "eth0", "wlan0"]), Some("eth0"));
        assert_eq!(nearest("FQ-CoDel", ["codel", "fq_codel"]), Some("fq_codel"));
        assert_eq!(nearest("zz9", ["lo", "eth0"]), None);
    }
}
