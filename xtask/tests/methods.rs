//! The shape of a struct with methods: the measurements on planted sources, and the rule on this repository.

use xtask::tidy::methods::{self, Shape};
use xtask::tidy::{self, File};
use xtask::workspace_root;

/// The state machine stays split into parts: at most this many fields, and functions in one cycle of calls.
const MOST_FIELDS: usize = 12;
const LARGEST_CYCLE: usize = 10;

fn shape(files: &[(&str, &str)]) -> Shape {
    let files: Vec<File> = files.iter().map(|(path, text)| File::new(path, text)).collect();
    methods::of(&files, "Machine").expect("a struct Machine")
}

/// The largest cycle of a crate with one file, with this body of `Machine::run` and additional code.
#[track_caller]
fn check(run: &str, rest: &str, expected: &[&str]) {
    let fields = "jobs: Jobs, next: Box<parts::Fleet>, ids: Vec<u64>";
    let text =
        format!("struct Machine {{ {fields} }} impl Machine {{ fn run(&mut self) {{ {run} }} }} {rest}");
    let shape = shape(&[("crates/a/src/machine.rs", &text)]);
    assert_eq!(shape.largest_cycle(), expected, "{text}");
}

#[test]
fn the_kernel_stays_in_parts() {
    let files =
        tidy::files(&workspace_root(), "crates/kernel/src", ".rs").expect("the files of this workspace");
    let faults = methods::too_large(&files, "Kernel", MOST_FIELDS, LARGEST_CYCLE);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

const SAMPLE: &[(&str, &str)] = &[
    ("crates/a/src/lib.rs", "mod machine; mod cancel; mod part;\n#[cfg(test)]\nmod rig;\n"),
    (
        "crates/a/src/machine.rs",
        r#"
        //! impl Machine { fn comment(&self) { self.run() } }
        pub struct Machine {
            pub(crate) config: Config,
            /// Where, as a pair: of a, and b.
            #[allow(unused)]
            place: (u8, [u8; 4]),
            open: BTreeMap<u64, (Job, Vec<u8>)>,
            chance: Box<dyn FnMut(u8) -> u64 + Send>,
            part: Part,
        }
        impl Machine {
            pub fn new() -> Machine { Machine::start("self.run()") }
            fn start(text: &str) -> Self { todo(text) }
            pub fn run(&mut self) -> [u8; 2] { self.cancel(1); [0; 2] }
            fn settle(&mut self) where Self: Sized { let task = self.take(); drop(|| self.run()) }
            fn take(&mut self) -> u8 { self.part.take() }
        }
        impl fmt::Debug for Machine {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.run() }
        }
        #[cfg(test)]
        mod tests {
            impl Machine { fn only_in_tests(&mut self) { self.run(); self.alone() } }
        }
        "#,
    ),
    (
        "crates/a/src/cancel.rs",
        "impl Machine {\n\
         pub(crate) fn cancel(&mut self, id: u64) { if id > 0 { self\n.settle::<u8>() } /* self.alone() */ }\n\
         fn alone(&self) { self.cancel(1) }\n\
         }\n",
    ),
    (
        "crates/a/src/part.rs",
        "pub(crate) struct Part(u8);\n\
         impl Part { fn take(&mut self) -> u8 { self.run() } fn run(&mut self) -> u8 { 1 } }\n",
    ),
    ("crates/a/src/rig.rs", "impl Machine { fn rigged(&mut self) { self.run(); self.alone() } }\n"),
];

#[test]
fn a_struct_is_counted_over_all_files_without_tests() {
    let shape = shape(SAMPLE);
    assert_eq!((shape.fields, shape.impls, shape.methods), (5, 2, 7));
    assert_eq!(shape.files, ["crates/a/src/cancel.rs", "crates/a/src/machine.rs"]);
    assert_eq!(shape.largest_cycle(), ["Machine::cancel", "Machine::run", "Machine::settle"]);
    assert_eq!(shape.cycles.len(), 1);
    assert_eq!(shape.cycles[0].files, ["crates/a/src/cancel.rs", "crates/a/src/machine.rs"]);
}

#[test]
fn the_figures_are_printed() {
    let expected = "\
Machine
  fields         5
  impl blocks    2 in 2 files
  methods        7
  largest cycle  3 functions in 2 files
    Machine::cancel
    Machine::run
    Machine::settle";
    assert_eq!(methods::report("Machine", &shape(SAMPLE)), expected);
}

#[test]
fn a_cycle_through_a_part_is_seen() {
    let end = "fn end(&self, all: &mut Machine) { all.run() }";
    let jobs = format!("impl Jobs {{ {end} }}");
    check("self.jobs.end(self)", &jobs, &["Jobs::end", "Machine::run"]);
    check("self\n    .jobs\n    .end::<Vec<u8>>(self)", &jobs, &["Jobs::end", "Machine::run"]);
    check("Jobs::end(&self.jobs, self)", &jobs, &["Jobs::end", "Machine::run"]);
    let getter =
        format!("{jobs} impl Machine {{ fn jobs_mut(&mut self) -> &mut Jobs {{ &mut self.jobs }} }}");
    check("self.jobs_mut().end(self)", &getter, &["Jobs::end", "Machine::run"]);
    let deep = format!("struct Jobs {{ line: Arc<Line> }} impl Line {{ {end} }}");
    check("self.jobs.line.end(self)", &deep, &["Line::end", "Machine::run"]);
    let boxed = format!("struct Fleet(pub Line, u8); impl Line {{ {end} }}");
    check("self.next.0.end(self)", &boxed, &["Line::end", "Machine::run"]);
}

#[test]
fn a_cycle_through_a_function_or_a_trait_is_seen() {
    let free = "fn end(all: &'a mut Machine) { all.run() }";
    check("end(self)", free, &["Machine::run", "machine::end"]);
    check("machine::end(self)", free, &["Machine::run", "machine::end"]);
    check("end(self)", "fn end(all: &mut Machine) { Machine::run(all) }", &["Machine::run", "machine::end"]);
    let method = "impl Machine { fn end(&mut self) { self.run() } }";
    check("ids.for_each(|id| self.end(id))", method, &["Machine::end", "Machine::run"]);
    check("ids.for_each(Self::end)", method, &["Machine::end", "Machine::run"]);
    let of_trait =
        "impl<'a, T: Fn(u8) -> u8> Step<T> for Machine where T: Send { fn step(&mut self) { self.run() } }";
    check("self.step()", of_trait, &["Machine::run", "Machine::step"]);
    check(
        "x()",
        "trait Step: Send { fn a(&self) { self.b() } fn b(&self) { self.a() } }",
        &["Step::a", "Step::b"],
    );
}

#[test]
fn a_call_of_another_type_or_of_itself_is_no_cycle() {
    check("self.jobs.run()", "impl Jobs { fn run(&self) {} }", &[]);
    check("self.ids.push(1)", "impl Machine { fn push(&mut self) { self.run() } }", &[]);
    check("let other = f(); other.end()", "impl Machine { fn end(&self) { self.run() } }", &[]);
    check("self.run()", "", &[]);
}

/// A ring of methods that call each other, in a struct with fields.
fn ring(fields: usize, methods: usize) -> [File; 1] {
    let fields: String = (0..fields).map(|n| format!("pub f{n}: u8, ")).collect();
    let name = |n: usize| format!("m{}", n % methods);
    let methods: String =
        (0..methods).map(|n| format!("fn {}(&self) {{ self.{}() }} ", name(n), name(n + 1))).collect();
    let text = format!("pub struct Kernel {{ {fields} }} impl Kernel {{ {methods} }}");
    [File::new("crates/kernel/src/kernel.rs", &text)]
}

#[track_caller]
fn check_kernel(files: &[File], expected: &[&str]) {
    let faults = methods::too_large(files, "Kernel", MOST_FIELDS, LARGEST_CYCLE);
    assert_eq!(faults.len(), expected.len(), "{faults:?}");
    for (fault, beginning) in faults.iter().zip(expected) {
        assert!(fault.starts_with(beginning), "{fault}");
    }
}

#[test]
fn a_kernel_that_grows_is_caught() {
    check_kernel(&[], &[]);
    check_kernel(&ring(12, 10), &[]);
    check_kernel(&ring(13, 10), &["Kernel has 13 fields, 12 allowed"]);
    check_kernel(&ring(12, 11), &["11 functions call each other in a cycle, 10 allowed: Kernel::m0, "]);
    check_kernel(&ring(20, 100), &["Kernel has 20 fields", "100 functions call each other"]);
    let other = File::new("crates/kernel/src/lib.rs", "pub struct Engine;");
    check_kernel(&[other], &["there is no struct Kernel"]);
}
