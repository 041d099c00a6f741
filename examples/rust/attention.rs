// SPDX-License-Identifier: Apache-2.0
//! Weft from Rust: an attention on this CPU, without a binding.
//!
//!     rustc --edition 2021 -O examples/rust/attention.rs -L $HOME/.local/lib -l weft && LD_LIBRARY_PATH=$HOME/.local/lib ./attention
//!
//! The library describes its own structs: fields of problems and buffers of data, by name and offset. So this file declares none of
//! those structs, and fields that later versions add change nothing here. Any language with a C interface can do the same.

use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

#[repr(C)]
struct Message {
    text: [c_char; 256],
}

#[repr(C)]
struct Field {
    name: *const c_char,
    text: *const c_char,
    kind: c_int,
    offset: usize,
    value: i32,
    choice: *const c_void,
    usual: f64,
    follows: *const c_char,
}

#[repr(C)]
struct Operation {
    operation: i32,
    name: *const c_char,
    text: *const c_char,
    problem_size: usize,
    data_size: usize,
    grid: c_int,
    fields: *const Field,
    field_count: usize,
}

#[repr(C)]
struct Buffer {
    struct_size: usize,
    name: *const c_char,
    offset: usize,
    dtype: c_int,
    elements: usize,
    alignment: usize,
    is_read: i32,
    is_written: i32,
    optional: i32,
}

const INTEGER: c_int = 1; // WEFT_FIELD_INTEGER
const FLAG: c_int = 4; // WEFT_FIELD_FLAG
const NOT_FOUND: c_int = 3; // WEFT_NOT_FOUND

#[link(name = "weft")]
extern "C" {
    fn weft_version() -> *const c_char;
    fn weft_operation_find(name: *const c_char) -> i32;
    fn weft_operation_describe(operation: i32) -> *const Operation;
    fn weft_problem_init(problem: *mut c_void, operation: i32) -> c_int;
    fn weft_problem_flops(problem: *const c_void) -> f64;
    fn weft_problem_buffer(problem: *const c_void, index: usize, buffer: *mut Buffer, message: *mut Message) -> c_int;
    fn weft_plan_create(plan: *mut *mut c_void, problem: *const c_void, options: *const c_void, message: *mut Message) -> c_int;
    fn weft_plan_run(plan: *const c_void, data: *const c_void, message: *mut Message) -> c_int;
    fn weft_plan_text(plan: *const c_void, text: *mut c_char, size: usize) -> usize;
    fn weft_plan_destroy(plan: *mut c_void);
}

fn text_of(text: *const c_char) -> String {
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A status as a Result, with the library's message.
fn checked(call: impl FnOnce(*mut Message) -> c_int) -> Result<(), String> {
    let mut message = Message { text: [0; 256] };
    match call(&mut message) {
        0 => Ok(()),
        _ => Err(text_of(message.text.as_ptr())),
    }
}

/// A struct of the library: words, so that it is aligned.
struct Words(Vec<u64>);

impl Words {
    fn new(bytes: usize) -> Self {
        Words(vec![0; (bytes + 7) / 8])
    }
    fn pointer(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
    fn set<T>(&mut self, offset: usize, value: T) {
        assert!(offset + std::mem::size_of::<T>() <= 8 * self.0.len());
        unsafe { self.0.as_mut_ptr().cast::<u8>().add(offset).cast::<T>().write(value) }
    }
}

/// A problem of an operation, with fields by name: whole numbers and flags.
fn problem(name: &str, given: &[(&str, i64)]) -> Result<(Words, &'static Operation), String> {
    let wanted = CString::new(name).map_err(|error| error.to_string())?;
    let row = unsafe { weft_operation_describe(weft_operation_find(wanted.as_ptr())).as_ref() }.ok_or_else(|| format!("there is no operation {}", name))?;
    let mut made = Words::new(row.problem_size);
    unsafe { weft_problem_init(made.0.as_mut_ptr().cast(), row.operation) };
    let fields = unsafe { std::slice::from_raw_parts(row.fields, row.field_count) };
    for &(name, value) in given {
        let field = fields.iter().find(|field| text_of(field.name) == name).ok_or_else(|| format!("there is no field {}", name))?;
        match field.kind {
            INTEGER => made.set(field.offset, value),
            FLAG => made.set(field.offset, field.value),
            _ => return Err(format!("{} is no whole number and no flag", name)),
        }
    }
    Ok((made, row))
}

/// The buffers of a problem that a run must have: name, offset in the data, elements.
fn buffers(problem: &Words) -> Result<Vec<(String, usize, usize)>, String> {
    let mut found = Vec::new();
    for index in 0.. {
        let mut buffer = Buffer { struct_size: std::mem::size_of::<Buffer>(), name: null(), offset: 0, dtype: 0, elements: 0, alignment: 0, is_read: 0, is_written: 0, optional: 0 };
        let mut message = Message { text: [0; 256] };
        match unsafe { weft_problem_buffer(problem.pointer(), index, &mut buffer, &mut message) } {
            0 if buffer.optional == 0 => found.push((text_of(buffer.name), buffer.offset, buffer.elements)),
            0 => {}
            NOT_FOUND => break,
            _ => return Err(text_of(message.text.as_ptr())),
        }
    }
    Ok(found)
}

struct Plan(*mut c_void);

impl Plan {
    fn new(problem: &Words) -> Result<Self, String> {
        let mut plan = null_mut();
        checked(|message| unsafe { weft_plan_create(&mut plan, problem.pointer(), null(), message) })?;
        Ok(Plan(plan))
    }
    fn run(&self, data: &Words) -> Result<(), String> {
        checked(|message| unsafe { weft_plan_run(self.0, data.pointer(), message) })
    }
    fn text(&self) -> String {
        let mut text = vec![0 as c_char; 4096];
        unsafe { weft_plan_text(self.0, text.as_mut_ptr(), text.len()) };
        text_of(text.as_ptr())
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        unsafe { weft_plan_destroy(self.0) }
    }
}

fn run() -> Result<(), String> {
    let (seq, heads, head_dim) = (100, 4, 64);
    let (posed, row) = problem("attention", &[("heads", heads), ("kv_heads", 2), ("seq", seq), ("kv_seq", seq), ("head_dim", head_dim), ("causal", 1)])?;
    let mut data = Words::new(row.data_size);
    data.set(0, row.data_size);
    data.set(8, row.operation);
    let mut arrays: Vec<(String, Vec<f32>)> = Vec::new();
    for (name, offset, elements) in buffers(&posed)? {
        let mut array = vec![0f32; elements];
        if name == "v" {
            let each = elements / seq as usize; // the value of every key is its number
            array.iter_mut().enumerate().for_each(|(i, x)| *x = (i / each) as f32);
        }
        data.set(offset, array.as_mut_ptr());
        arrays.push((name, array)); // its elements stay where they are
    }
    let plan = Plan::new(&posed)?;
    plan.run(&data)?;
    println!("weft {}: {:.0} FLOP\n{}", text_of(unsafe { weft_version() }), unsafe { weft_problem_flops(posed.pointer()) }, plan.text());
    let (_, o) = arrays.iter().find(|(name, _)| name == "o").ok_or("there is no o")?;
    let last = o[o.len() - 1]; // all scores are 0, so the last query gets the mean of 0 .. 99
    println!("o[last query] = {}", last);
    if last == 49.5 { Ok(()) } else { Err("that is wrong".into()) }
}

fn main() {
    if let Err(error) = problem("attention", &[("seq", 0)]).and_then(|(posed, _)| Plan::new(&posed)) {
        println!("refused, as it should be: {}", error);
    }
    if let Err(error) = run() {
        eprintln!("attention: {}", error);
        std::process::exit(1);
    }
}
