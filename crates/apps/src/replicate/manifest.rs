//! The description of a tree: its content, and what is allowed in it.
//!
//! It is encoded as a magic line and postcard; the BLAKE3 hash of that is the version's name. It comes from another machine, so decoding checks
//! everything that the receiver relies on: no name leaves the tree, parents come before children, sizes add up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first line of an encoded manifest.
const MAGIC: &[u8] = b"warpline tree 1\n";

/// Longest name of one file or directory in bytes, as in Linux and macOS.
const MAX_NAME: usize = 255;

/// Longest path in bytes.
const MAX_PATH: usize = 4096;

/// Largest chunk of data in bytes.
pub const MAX_CHUNK: u64 = 1 << 20;

/// Largest encoded manifest in bytes that a receiver accepts: some ten million files, or 4 TB of data.
pub const MAX_MANIFEST: u64 = 512 << 20;

/// Most files, directories and links of a manifest.
pub const MAX_ENTRIES: u64 = 20_000_000;

/// Bytes of memory that a manifest may decode to for each byte of its encoded form, and a fixed allowance for small ones. An entry with realistic
/// names and times takes four times its encoded form.
const SWELL: usize = 6;
const SWELL_FREE: usize = 1 << 20;

/// A tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The root first, then everything below, parents before children, by [`order`].
    pub entries: Vec<Entry>,
}

/// A file, a directory or a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Path below the root, of any bytes, with `/` between names. Empty for the root.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// Time of the last modification: seconds since 1970.
    pub mtime: i64,
    /// Nanoseconds of that time.
    pub mtime_ns: u32,
    /// Its kind, with what belongs to it.
    pub kind: Kind,
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A directory.
    Directory {
        /// Permissions, at most 0o777.
        mode: u16,
    },
    /// A regular file.
    File {
        /// Permissions, at most 0o777.
        mode: u16,
        /// Its content, in order.
        chunks: Vec<Chunk>,
    },
    /// A symbolic link.
    Link {
        /// Its target.
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Number of bytes; at most [`MAX_CHUNK`] with a hash.
    pub length: u64,
    /// BLAKE3 of its bytes; `None` for zeros, which are holes in the file.
    pub hash: Option<[u8; 32]>,
}

/// A tree's name: BLAKE3 of its encoded manifest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Id([u8; 32]);

impl Id {
    /// The name of an encoded manifest.
    pub fn of(encoded: &[u8]) -> Self {
        Id(*blake3::hash(encoded).as_bytes())
    }
}

impl fmt::Display for Id {
    /// The first half in hexadecimal: long enough to be unique, and short enough for a directory's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(16).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why bytes are not a manifest, or not an acceptable one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Not a manifest, or one of another version.
    #[error("this is not a tree description of a version that this program knows")]
    Magic,
    /// Not decodable.
    #[error("the tree description is damaged")]
    Damaged,
    /// The first entry is not the root.
    #[error("the tree description does not begin with its root directory")]
    Root,
    /// A path that leads out of the tree, or is invalid.
    #[error("the path `{path}` is not allowed in a tree: {problem}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An entry out of order, repeated, or below a path that is not a directory.
    #[error("`{path}` is not in its place in the tree description")]
    Order {
        /// The path.
        path: String,
    },
    /// A value out of its range.
    #[error("{what} of `{path}` is out of range")]
    Range {
        /// The path.
        path: String,
        /// The value.
        what: &'static str,
    },
    /// It would take more memory than honest manifests do: an attack.
    #[error("the tree description would take more memory than is allowed for its length")]
    Swells,
    /// Too many entries.
    #[error("the tree has {found} entries; at most {MAX_ENTRIES} are accepted: split it")]
    TooMany {
        /// Number of entries.
        found: u64,
    },
    /// A link that leads, or could lead, out of the tree.
    #[error("the symbolic link `{path}` leads to `{target}`, which may be outside the tree")]
    Link {
        /// The link.
        path: String,
        /// Its target.
        target: String,
    },
}

/// A path for messages.
pub fn shown(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { String::from_utf8_lossy(path).escape_debug().to_string() }
}

/// The order of paths: a directory's content directly after it.
pub fn order(path: &[u8]) -> impl Ord + use<> {
    // A separator sorts before every byte that is allowed in a name.
    path.iter().map(|&byte| if byte == b'/' { 0 } else { byte }).collect::<Vec<u8>>()
}

impl Entry {
    /// Bytes of a file; 0 for anything else.
    pub fn size(&self) -> u64 {
        self.chunks().iter().map(|chunk| chunk.length).sum()
    }

    /// Bytes of data in a file, without holes; 0 for anything else.
    pub fn data(&self) -> u64 {
        self.chunks().iter().filter(|chunk| chunk.hash.is_some()).map(|chunk| chunk.length).sum()
    }

    /// A file's chunks; empty for anything else.
    pub fn chunks(&self) -> &[Chunk] {
        match &self.kind {
            Kind::File { chunks, .. } => chunks,
            _ => &[],
        }
    }

    fn check(&self) -> Result<(), ManifestError> {
        check_path(&self.path)?;
        let range = |holds: bool, what| {
            if holds { Ok(()) } else { Err(ManifestError::Range { path: shown(&self.path), what }) }
        };
        range(self.mtime_ns < 1_000_000_000, "the time")?;
        match &self.kind {
            Kind::Directory { mode } => range(*mode <= 0o777, "the mode"),
            Kind::File { mode, chunks } => {
                range(*mode <= 0o777, "the mode")?;
                let fits =
                    |chunk: &Chunk| chunk.length > 0 && (chunk.hash.is_none() || chunk.length <= MAX_CHUNK);
                range(chunks.iter().all(fits), "a chunk")?;
                let size = chunks.iter().try_fold(0u64, |size, chunk| size.checked_add(chunk.length));
                range(size.is_some_and(|size| i64::try_from(size).is_ok()), "the size")?;
                // Adjacent holes must be merged. Otherwise two bytes would make a chunk.
                let split = chunks.windows(2).any(|two| two.iter().all(|chunk| chunk.hash.is_none()));
                range(!split, "a hole")
            }
            Kind::Link { target } => check_target(&self.path, target),
        }
    }
}

/// Checks that every name is valid and none leads up.
fn check_path(path: &[u8]) -> Result<(), ManifestError> {
    let wrong = |problem| Err(ManifestError::Path { path: shown(path), problem });
    if path.len() > MAX_PATH {
        return wrong("it is longer than 4096 bytes");
    }
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" => return wrong("it has an empty name, or begins with a slash"),
            b"." | b".." => return wrong("it has the name `.` or `..`"),
            _ if name.len() > MAX_NAME => return wrong("it has a name of more than 255 bytes"),
            _ if name.contains(&0) => return wrong("it has a NUL byte"),
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a link's target stays in the tree: it is relative, has `..` only at its beginning, and climbs no higher than the root.
///
/// At the beginning, `..` climbs from real directories, because parents are never links. After another name, which may be a link, it could
/// climb from anywhere. A target reached through another link is inside if that link's target is.
pub fn check_target(path: &[u8], target: &[u8]) -> Result<(), ManifestError> {
    let mut depth = path.iter().filter(|&&byte| byte == b'/').count();
    let mut climbing = true;
    let mut inside = !target.is_empty() && target.len() < MAX_PATH && !target.starts_with(b"/");
    inside &= !target.contains(&0);
    for name in target.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if climbing && depth > 0 => depth -= 1,
            b".." => inside = false,
            _ => climbing = false,
        }
    }
    if inside { Ok(()) } else { Err(ManifestError::Link { path: shown(path), target: shown(target) }) }
}

/// Decodes piece by piece, and fails before the result takes more memory than its length allows.
struct Reader<'a> {
    rest: &'a [u8],
    /// Bytes that may still be used.
    room: usize,
}

impl<'a> Reader<'a> {
    fn take<T: Deserialize<'a>>(&mut self) -> Result<T, ManifestError> {
        let (value, rest) = postcard::take_from_bytes(self.rest).map_err(|_| ManifestError::Damaged)?;
        self.rest = rest;
        Ok(value)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), ManifestError> {
        self.room = self.room.checked_sub(bytes).ok_or(ManifestError::Swells)?;
        Ok(())
    }

    fn bytes(&mut self) -> Result<Vec<u8>, ManifestError> {
        let bytes: &[u8] = self.take()?;
        self.spend(bytes.len())?;
        Ok(bytes.to_vec())
    }

    /// The fields in the order in which [`Entry`] and [`Kind`] name them, as postcard writes them.
    fn entry(&mut self) -> Result<Entry, ManifestError> {
        self.spend(size_of::<Entry>())?;
        let (path, mtime, mtime_ns) = (self.bytes()?, self.take()?, self.take()?);
        let kind = match self.take::<u32>()? {
            0 => Kind::Directory { mode: self.take()? },
            1 => {
                let (mode, count): (u16, u64) = (self.take()?, self.take()?);
                let mut chunks: Vec<Chunk> = Vec::new();
                for _ in 0..count {
                    self.spend(size_of::<Chunk>())?;
                    chunks.push(self.take()?);
                }
                // A vector grows by doubling.
                chunks.shrink_to_fit();
                Kind::File { mode, chunks }
            }
            2 => Kind::Link { target: self.bytes()? },
            _ => return Err(ManifestError::Damaged),
        };
        Ok(Entry { path, mtime, mtime_ns, kind })
    }
}

impl Manifest {
    /// The encoded form.
    pub fn encode(&self) -> Vec<u8> {
        // Writing to memory does not fail, and every type here can be encoded.
        postcard::to_extend(self, MAGIC.to_vec()).unwrap_or_default()
    }

    /// Decodes and checks.
    ///
    /// # Errors
    /// If it is not a manifest, or is one that must not be built.
    pub fn decode(encoded: &[u8]) -> Result<Self, ManifestError> {
        let body = encoded.strip_prefix(MAGIC).ok_or(ManifestError::Magic)?;
        let mut reader = Reader { rest: body, room: body.len().saturating_mul(SWELL) + SWELL_FREE };
        let count: u64 = reader.take()?;
        if count > MAX_ENTRIES {
            return Err(ManifestError::TooMany { found: count });
        }
        let mut entries = Vec::new();
        for _ in 0..count {
            let entry = reader.entry()?;
            entries.push(entry);
        }
        if !reader.rest.is_empty() {
            return Err(ManifestError::Damaged);
        }
        let manifest = Manifest { entries };
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks whether it may be built.
    ///
    /// # Errors
    /// At the first invalid entry.
    pub fn check(&self) -> Result<(), ManifestError> {
        let mut entries = self.entries.iter();
        match entries.next() {
            Some(Entry {
                path,
                mtime_ns: 0..1_000_000_000,
                kind: Kind::Directory { mode: 0..=0o777 },
                ..
            }) if path.is_empty() => {}
            _ => return Err(ManifestError::Root),
        }
        // The directories that contain the last entry.
        let mut open: Vec<&[u8]> = Vec::new();
        let mut last: Option<&[u8]> = None;
        for entry in entries {
            entry.check()?;
            let path = &entry.path[..];
            let misplaced = || ManifestError::Order { path: shown(path) };
            if last.is_some_and(|last| order(last) >= order(path)) {
                return Err(misplaced());
            }
            last = Some(path);
            let parent = path.iter().rposition(|&byte| byte == b'/').map_or(&path[..0], |at| &path[..at]);
            while open.last().is_some_and(|directory| *directory != parent) {
                open.pop();
            }
            if open.is_empty() && !parent.is_empty() {
                return Err(misplaced());
            }
            if let Kind::Directory { .. } = entry.kind {
                open.push(path);
            }
        }
        Ok(())
    }

    /// Bytes of data in all files, holes left out.
    pub fn data_bytes(&self) -> u64 {
        self.entries.iter().map(Entry::data).sum()
    }

    /// Number of files, and of everything else except the root.
    pub fn count(&self) -> (usize, usize) {
        let files = self.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).count();
        (files, self.entries.len().saturating_sub(files + 1))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry { path: path.into(), mtime: 5, mtime_ns: 6, kind }
    }
    fn directory(path: &str) -> Entry {
        entry(path, Kind::Directory { mode: 0o755 })
    }
    fn file(path: &str, lengths: &[u64]) -> Entry {
        let chunks = lengths.iter().map(|&length| Chunk { length, hash: Some([1; 32]) }).collect();
        entry(path, Kind::File { mode: 0o644, chunks })
    }
    fn link(path: &str, target: &str) -> Entry {
        entry(path, Kind::Link { target: target.into() })
    }
    fn checked(entries: &[Entry]) -> Result<(), String> {
        let entries = [&[directory("")], entries].concat();
        let manifest = Manifest { entries };
        let again = Manifest::decode(&manifest.encode());
        assert_eq!(again, manifest.check().map(|()| manifest));
        again.map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_tree_survives_its_encoding() {
        let tree = [
            directory("a"),
            directory("a/b"),
            file("a/b/c", &[1, MAX_CHUNK]),
            file("a/d", &[]),
            file("a-", &[3]),
        ];
        assert_eq!(checked(&tree), Ok(()));
    }

    #[test]
    fn no_path_leaves_the_tree() {
        for path in ["/etc/passwd", "..", "../x", "a/../../x", "a//b", "a/", ".", "a\0b", "./a"] {
            let error = checked(&[directory("a"), file(path, &[1])]).unwrap_err();
            assert!(error.contains("is not allowed in a tree"), "{path}: {error}");
        }
        assert!(checked(&[file(&"x".repeat(256), &[])]).is_err());
    }

    #[test]
    fn entries_come_after_the_directory_that_contains_them() {
        for wrong in [
            vec![file("a/b", &[])],
            vec![file("a", &[]), file("a/b", &[])],
            vec![link("a", "b"), file("a/b", &[])],
            vec![directory("a"), directory("a")],
            vec![directory("b"), directory("a")],
            vec![directory("a"), file("a-", &[]), file("a/b", &[])],
        ] {
            assert!(checked(&wrong).unwrap_err().contains("not in its place"), "{wrong:?}");
        }
    }

    #[test]
    fn links_stay_inside() {
        let at = |target: &str| checked(&[directory("d"), directory("d/e"), link("d/e/l", target)]);
        for inside in ["x", "../x", "../../x", "./x/y", "..", "../.."] {
            assert_eq!(at(inside), Ok(()), "{inside}");
        }
        // The fifth climbs from `x`, which may be a link.
        for outside in ["/etc", "../../..", "../../../x", "", "x/../y", "x/../../../.."] {
            assert!(at(outside).unwrap_err().contains("may be outside"), "{outside}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let setuid = entry("a", Kind::File { mode: 0o4755, chunks: vec![] });
        assert!(checked(&[setuid]).unwrap_err().contains("the mode"));
        assert!(checked(&[file("a", &[0])]).unwrap_err().contains("a chunk"));
        assert!(checked(&[file("a", &[MAX_CHUNK + 1])]).unwrap_err().contains("a chunk"));
        let holes = vec![Chunk { length: u64::MAX / 2, hash: None }; 3];
        assert!(
            checked(&[entry("a", Kind::File { mode: 0, chunks: holes })]).unwrap_err().contains("the size")
        );
        assert_eq!(Manifest { entries: vec![] }.check(), Err(ManifestError::Root));
        assert_eq!(Manifest::decode(b"something else"), Err(ManifestError::Magic));
    }

    #[test]
    fn a_manifest_that_would_take_too_much_memory_is_refused_before_it_does() {
        // Two bytes for each chunk of 48: a gigabyte would become 25.
        let holes = vec![Chunk { length: 1, hash: None }; 3_000_000];
        let tree = [directory(""), entry("a", Kind::File { mode: 0, chunks: holes })];
        let bytes = Manifest { entries: tree.to_vec() }.encode();
        assert!(bytes.len() < 7_000_000);
        assert_eq!(Manifest::decode(&bytes), Err(ManifestError::Swells));
        // Few enough to pass the size limit, but adjacent holes are refused.
        let holes = vec![Chunk { length: 1, hash: None }; 2];
        assert!(
            checked(&[entry("a", Kind::File { mode: 0, chunks: holes })]).unwrap_err().contains("a hole")
        );
        // Eight bytes for each entry of 80.
        let empty: Vec<Entry> = (0..300_000)
            .map(|_| Entry {
                path: vec![b'a'],
                mtime: 0,
                mtime_ns: 0,
                kind: Kind::File { mode: 0, chunks: vec![] },
            })
            .collect();
        let bytes = Manifest { entries: [vec![directory("")], empty].concat() }.encode();
        assert_eq!(Manifest::decode(&bytes), Err(ManifestError::Swells));
        // A count without the entries.
        let many = postcard::to_extend(&u64::MAX, MAGIC.to_vec()).unwrap();
        assert_eq!(Manifest::decode(&many), Err(ManifestError::TooMany { found: u64::MAX }));
        let some = postcard::to_extend(&(MAX_ENTRIES - 1), MAGIC.to_vec()).unwrap();
        assert_eq!(Manifest::decode(&some), Err(ManifestError::Damaged));
    }

    #[test]
    fn a_large_tree_of_small_files_is_accepted() {
        let files = (0..200_000).map(|number| Entry {
            path: format!("{number:06}").into_bytes(),
            mtime: 1_700_000_000,
            mtime_ns: 123_456_789,
            kind: Kind::File { mode: 0o644, chunks: vec![] },
        });
        let manifest = Manifest { entries: std::iter::once(directory("")).chain(files).collect() };
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(manifest) = Manifest::decode(&[MAGIC, &bytes].concat()) {
                prop_assert!(manifest.check().is_ok());
            }
        }

        #[test]
        fn damage_is_detected_or_harmless(at in 16usize..200, bit in 0u8..8) {
            let tree = [directory(""), directory("a"), file("a/b", &[7, 9]), link("l", "a/b")];
            let mut bytes = Manifest { entries: tree.to_vec() }.encode();
            let at = at.min(bytes.len() - 1);
            bytes[at] ^= 1 << bit;
            if let Ok(manifest) = Manifest::decode(&bytes) {
                prop_assert!(manifest.entries.iter().all(|entry| !entry.path.starts_with(b"/")));
            }
        }
    }
}
