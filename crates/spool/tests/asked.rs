//! Questions to files of several boots.

use std::fs::File;
use std::path::Path;

use transom_spool::{
    BOOT, Connection, FileName, Question, RowKind, Table, Time, answer, list, rows_of, write,
};

const MINUTE: i64 = 60_000_000;

/// A file of a boot, with the connection of this number.
fn put(spool: &Path, number: u32, boot: &str, row: Connection) {
    let name = FileName::new(Table::Connections, "20260302T140000Z".into(), number);
    let file = File::create(spool.join(name.to_string())).unwrap();
    write(file, [row], &[(BOOT, boot.to_owned())], &mut || ()).unwrap();
}

#[test]
fn connections_of_two_boots_are_two_though_the_kernel_gave_them_one_number() {
    let spool = tempfile::tempdir().unwrap();
    let row = |minute, kind, bytes_acked| Connection {
        time: Time(minute * MINUTE),
        cookie: 4711,
        kind,
        bytes_acked,
        ..Connection::default()
    };
    put(spool.path(), 1, "before", row(1, RowKind::Interim, 1_000));
    put(spool.path(), 2, "before", row(2, RowKind::End, 30_000));
    put(spool.path(), 3, "after", row(5, RowKind::Failed, 0));
    let files = list(spool.path()).unwrap();
    let all = String::new()..="9".into();
    let (rows, _) = rows_of(&files, Table::Connections, &all, None, |_| true).unwrap();
    let question = Question { to: Time(9 * MINUTE), ..Question::default() };
    let asked = answer(&question, &rows, &[], 9).asked;
    assert_eq!((asked.connections, asked.failed, asked.bytes_acked), (2, 1, 30_000));
}
