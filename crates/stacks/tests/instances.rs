//! Many instances of shared objects that were written for one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;

use warpline_stacks::stack::globaliser::{Object, ObjectError, Way};

/// Compiles a file of C into a shared object.
fn compile(directory: &Path, name: &str, text: &str) -> PathBuf {
    compile_with(&[], directory, name, text)
}

/// The same, with more options for the compiler.
fn compile_with(more: &[&str], directory: &Path, name: &str, text: &str) -> PathBuf {
    let (source, object) = (directory.join(format!("{name}.c")), directory.join(format!("{name}.so")));
    std::fs::write(&source, text).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"];
    let status = Command::new(compiler).args(options).arg(&object).arg(&source).args(more).status().unwrap();
    assert!(status.success());
    object
}

/// It counts in static variables: with a first value, without one, behind a pointer to itself, and at the end of more memory than a page has.
const COUNTER: &str = "\
#include <stdint.h>
static uint64_t begun = 5;
static uint64_t empty;
static uint64_t many[20000];
static uint64_t *pointer = &begun;
uint64_t count(void) { (*pointer)++; empty++; many[19999]++; return begun * 10000 + empty * 100 + many[19999]; }
";

/// A variable as a compiler for C++ writes one of an inline function.
const UNIQUE: &str = r#"
__asm__(".pushsection .data; .globl one; .type one, %gnu_unique_object; .size one, 8; one: .zero 8; .popsection");
"#;

fn count(object: &Object, instance: usize) -> u64 {
    let address = object.function(instance, "count").unwrap();
    object.enter(instance);
    // SAFETY: the object has this function.
    let function = unsafe { std::mem::transmute::<*const c_void, extern "C" fn() -> u64>(address) };
    function()
}

#[test]
fn each_instance_counts_by_itself_in_every_way() {
    let desk = tempfile::tempdir().unwrap();
    let path = compile(desk.path(), "counter", COUNTER);
    for way in [Way::Swap, Way::Map, Way::Object] {
        let object = Object::load(&path, "count", Some(way)).unwrap();
        assert_eq!(object.way(), way);
        let instances: Vec<usize> = (0..40).map(|_| object.add().unwrap()).collect();
        for round in 1..=3 {
            // In another order each time.
            let (first, last) = instances.split_at(round as usize);
            for &instance in last.iter().chain(first) {
                assert_eq!(
                    count(&object, instance),
                    (5 + round) * 10_000 + round * 101,
                    "{way:?}, {instance}"
                );
            }
        }
        // One that is added later is as the object was at first.
        let late = object.add().unwrap();
        assert_eq!(count(&object, late), 60_101, "{way:?}");
        assert_eq!(count(&object, instances[0]), 90_404, "{way:?}");
    }
    // What keeps its instances apart by itself is left alone: here, it does not.
    let object = Object::load(&path, "count", Some(Way::Own)).unwrap();
    let [a, b] = [0, 1].map(|_| object.add().unwrap());
    assert_eq!([count(&object, a), count(&object, b)], [60_101, 70_202]);
}

#[test]
fn the_way_depends_on_the_size() {
    let desk = tempfile::tempdir().unwrap();
    let large = Object::load(&compile(desk.path(), "large", COUNTER), "count", None).unwrap();
    assert!((160_000..180_000).contains(&large.instance_bytes()), "{}", large.instance_bytes());
    assert_eq!(large.way(), Way::Object);
    let small = compile(desk.path(), "small", &COUNTER.replace("20000", "20").replace("19999", "19"));
    let small = Object::load(&small, "count", None).unwrap();
    assert!(small.instance_bytes() < 5000, "{}", small.instance_bytes());
    assert_eq!(small.way(), Way::Swap);
}

/// Two runs in two threads have objects of their own.
#[test]
fn threads_do_not_meet_in_an_object() {
    let desk = tempfile::tempdir().unwrap();
    let path = compile(desk.path(), "counter", COUNTER);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let object = Object::load(&path, "count", None).unwrap();
                let instance = object.add().unwrap();
                for round in 1..=50 {
                    assert_eq!(count(&object, instance), (5 + round) * 10_000 + round * 101);
                }
            });
        }
    });
}

#[test]
fn what_cannot_have_instances_is_refused() {
    let desk = tempfile::tempdir().unwrap();
    let refused = |path: &Path| Object::load(path, "count", None).unwrap_err().to_string();
    let local = COUNTER.replace("static uint64_t empty", "static __thread uint64_t empty");
    let local = refused(&compile(desk.path(), "local", &local));
    assert!(local.contains("local.so: it has thread-local variables"), "{local}");
    let unique = refused(&compile(desk.path(), "unique", &format!("{COUNTER}{UNIQUE}")));
    assert!(unique.contains("unique.so: it has variables that all copies of it share"), "{unique}");
    let lasting = refused(&compile_with(&["-Wl,-z,nodelete"], desk.path(), "lasting", COUNTER));
    assert!(lasting.contains("lasting.so: it stays in memory for ever"), "{lasting}");
    let text = desk.path().join("text.so");
    std::fs::write(&text, "not an object").unwrap();
    assert!(refused(&text).contains("not a shared object"), "{}", refused(&text));
    let other = refused(&compile(desk.path(), "other", "int other(void); int other(void) { return 1; }"));
    assert!(other.contains("it has no function `count`"), "{other}");
    let nowhere = Object::load(&desk.path().join("nowhere.so"), "count", None).unwrap_err();
    assert!(matches!(nowhere, ObjectError::Read { .. }), "{nowhere}");
}
