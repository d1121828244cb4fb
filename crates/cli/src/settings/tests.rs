//! Precedence of layers, and which tokens are sent to which servers.

use super::*;
use crate::exit::Exit;
use crate::hall_key;
use crate::running::Registration;

struct Machine {
    place: tempfile::TempDir,
    given: Given,
}

impl Machine {
    fn new() -> Machine {
        let place = tempfile::tempdir().unwrap();
        for directory in ["work", "home/.config/jobhall", "home/.local/share/jobhall"] {
            std::fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        let mut machine = Machine { given: Given::default(), place };
        machine.given.directory = machine.path("work");
        machine.given.system = Some(machine.path("etc.toml"));
        machine.env("HOME", machine.path("home").to_str().unwrap());
        machine
    }

    fn path(&self, below: &str) -> PathBuf {
        self.place.path().join(below)
    }

    fn write(&self, below: &str, text: &str) {
        std::fs::write(self.path(below), text).unwrap();
    }

    fn env(&mut self, name: &str, value: &str) {
        self.given.env.push((name.to_owned(), value.to_owned()));
    }

    fn settings(&self) -> Settings {
        Settings::resolve(&self.given).unwrap()
    }
}

#[test]
fn each_layer_is_stronger_than_those_below() {
    let mut machine = Machine::new();
    let default = Setting { value: DEFAULT_SERVER.to_owned(), origin: Origin::Default };
    assert_eq!(machine.settings().server(), Ok(&default));
    machine.write("etc.toml", "server = 'http://etc'");
    assert_eq!(machine.settings().server().unwrap().value, "http://etc");
    machine.write("home/.config/jobhall/config.toml", "server = 'http://user'");
    assert_eq!(machine.settings().server().unwrap().value, "http://user");
    machine.write("work/.jobhall.toml", "[client]\nserver = 'http://project'");
    let project = Origin::Project(machine.path("work/.jobhall.toml"));
    let named = Setting { value: "http://project".to_owned(), origin: project };
    assert_eq!(machine.settings().server(), Ok(&named));
    machine.env("JOBHALL_SERVER", "http://env");
    assert_eq!(machine.settings().server().unwrap().origin, Origin::Env("JOBHALL_SERVER"));
    machine.given.flags.server = Some("http://flag".to_owned());
    assert_eq!(machine.settings().server().unwrap().origin, Origin::Flag("--server"));
}

#[test]
fn a_wrong_variable_is_refused_like_a_wrong_key() {
    let mut machine = Machine::new();
    machine.env("JOBHALL_COLOR", "nevr");
    let failure = Settings::resolve(&machine.given).unwrap_err();
    assert!(failure.what.ends_with("not \"nevr\"; did you mean \"never\"?"), "{failure}");
    let mut machine = Machine::new();
    machine.env("JOBHALL_LOG", "warning");
    let failure = Settings::resolve(&machine.given).unwrap_err();
    assert!(failure.what.starts_with("environment JOBHALL_LOG: log is one of off, error, warn"), "{failure}");
}

#[test]
fn logging_is_a_setting_like_the_others() {
    let mut machine = Machine::new();
    let said = |machine: &Machine| {
        let settings = machine.settings();
        (settings.log.value, settings.log_format.value, settings.log_format.origin)
    };
    assert_eq!(said(&machine), ("warn".to_owned(), "text".to_owned(), Origin::Default));
    machine.write("etc.toml", "log = 'info'\nlog_format = 'json'");
    assert_eq!(said(&machine).0, "info");
    machine.env("JOBHALL_LOG_FORMAT", "text");
    assert_eq!(said(&machine).2, Origin::Env("JOBHALL_LOG_FORMAT"));
    machine.given.flags.log = Some("debug".to_owned());
    assert_eq!(machine.settings().log.origin, Origin::Flag("--log"));
}

#[test]
fn hosts_are_named_with_commas_and_the_strongest_layer_wins() {
    let mut machine = Machine::new();
    assert_eq!(machine.settings().hosts, None);
    machine.write("etc.toml", "hosts = 'A.example, b.example'");
    let hosts = machine.settings().hosts.unwrap();
    assert_eq!(hosts.value, ["a.example", "b.example"]);
    assert_eq!(hosts.origin, Origin::System(machine.path("etc.toml")));
    machine.env("JOBHALL_HOST", "c.example");
    let hosts = machine.settings().hosts.unwrap();
    assert_eq!((hosts.value, hosts.origin), (vec!["c.example".to_owned()], Origin::Env("JOBHALL_HOST")));
    let mut machine = Machine::new();
    machine.env("JOBHALL_HOST", "hall:7450");
    let failure = Settings::resolve(&machine.given).unwrap_err();
    assert!(failure.what.starts_with("environment JOBHALL_HOST: hosts: the host"), "{failure}");
}

#[test]
fn the_data_directory_follows_the_desktop_rules() {
    let mut machine = Machine::new();
    assert_eq!(machine.settings().data.value, machine.path("home/.local/share/jobhall"));
    machine.env("XDG_DATA_HOME", "/somewhere");
    assert_eq!(machine.settings().data.value, Path::new("/somewhere/jobhall"));
    machine.env("JOBHALL_DATA", "/elsewhere");
    assert_eq!(machine.settings().data.value, Path::new("/elsewhere"));
}

#[test]
fn audit_l4_the_local_token_is_for_the_address_that_its_server_wrote_beside_it() {
    let mut machine = Machine::new();
    let token = |machine: &Machine| machine.settings().token.map(|token| token.value);
    let data = machine.path("home/.local/share/jobhall");
    machine.write("home/.local/share/jobhall/admin.token", "local\n");
    assert_eq!(token(&machine), None, "no server is running");
    machine.write("work/.jobhall.toml", "[client]\nserver = 'http://127.0.0.1:9'");
    let record = Record::new("http://127.0.0.1:8", &data, None);
    let registration = Registration::write(&record, &[]);
    assert_eq!(token(&machine), None, "another address of this machine");
    machine.write("work/.jobhall.toml", "[client]\nserver = 'http://127.0.0.1:8/'");
    assert_eq!(token(&machine).as_deref(), Some("local"));
    for other in ["http://127.0.0.1:8,http://127.0.0.1:9", "http://localhost:8", "https://127.0.0.1:8"] {
        machine.write("work/.jobhall.toml", &format!("[client]\nserver = '{other}'"));
        assert_eq!(token(&machine), None, "{other}");
    }
    machine.env("JOBHALL_SERVER", "http://127.0.0.1:8");
    assert_eq!(token(&machine).as_deref(), Some("local"));
    drop(registration);
    assert_eq!(token(&machine), None, "another program may listen there now");
}

#[test]
fn a_server_is_named_or_on_the_named_data_or_the_only_one() {
    let mut machine = Machine::new();
    let up = |machine: &Machine, name: &str, port: u16, below: &str| {
        let data = machine.path(name);
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("admin.token"), name).unwrap();
        let record = Record::new(&format!("http://127.0.0.1:{port}"), &data, None);
        Registration::write(&record, &[machine.path(below)])
    };
    let found = |machine: &Machine| {
        let settings = machine.settings();
        (settings.server().map(|server| server.value.clone()), settings.token.map(|token| token.value))
    };
    let named = |machine: &Machine, name: &str| Some(machine.path(name).to_str().unwrap().to_owned());
    let _one = up(&machine, "one", 1, "home/.local/state/jobhall");
    assert_eq!(found(&machine), (Ok("http://127.0.0.1:1".to_owned()), Some("one".to_owned())));
    let _two = up(&machine, "two", 2, "run/jobhall");
    machine.env("XDG_RUNTIME_DIR", machine.path("run").to_str().unwrap());
    let failure = found(&machine).0.unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    let why = failure.why.unwrap();
    assert!(why.contains("http://127.0.0.1:1 (data ") && why.contains("http://127.0.0.1:2 (data "), "{why}");
    machine.given.flags.data = named(&machine, "two");
    assert_eq!(found(&machine), (Ok("http://127.0.0.1:2".to_owned()), Some("two".to_owned())));
    machine.given.flags.data = named(&machine, "three");
    assert_eq!(found(&machine).0.unwrap_err().exit, Exit::Unreachable);
    machine.env("JOBHALL_SERVER", "http://127.0.0.1:1");
    assert_eq!(found(&machine), (Ok("http://127.0.0.1:1".to_owned()), Some("one".to_owned())));
    machine.given.flags.server = Some("http://127.0.0.1:3".to_owned());
    assert_eq!(found(&machine), (Ok("http://127.0.0.1:3".to_owned()), None));
}

#[test]
fn a_data_directory_that_is_named_beats_the_server_of_a_file() {
    let mut machine = Machine::new();
    let data = machine.path("one");
    std::fs::create_dir_all(&data).unwrap();
    let _one = Registration::write(&Record::new("http://127.0.0.1:1", &data, None), &[]);
    machine.write("etc.toml", "server = 'http://etc'");
    let found = |machine: &Machine| machine.settings().server().map(|server| server.value.clone());
    assert_eq!(found(&machine).as_deref(), Ok("http://etc"));
    machine.write("home/.config/jobhall/config.toml", &format!("data = '{}'", data.display()));
    assert_eq!(found(&machine).as_deref(), Ok("http://etc"), "a file names both");
    machine.env("JOBHALL_DATA", data.to_str().unwrap());
    assert_eq!(found(&machine).as_deref(), Ok("http://127.0.0.1:1"));
    machine.given.flags.data = Some(machine.path("none").to_str().unwrap().to_owned());
    assert_eq!(found(&machine).unwrap_err().exit, Exit::Unreachable);
    machine.env("JOBHALL_SERVER", "http://env");
    assert_eq!(found(&machine).as_deref(), Ok("http://env"));
}

#[test]
fn the_key_file_is_named_by_a_variable_but_not_by_a_project() {
    let mut machine = Machine::new();
    let key_file = |machine: &Machine| machine.settings().key_file;
    assert_eq!(key_file(&machine), None);
    machine.write("home/.config/jobhall/config.toml", "key_file = '/user.key'");
    assert_eq!(key_file(&machine).unwrap().value, "/user.key");
    machine.write("work/.jobhall.toml", "[client]\nkey_file = '/project.key'");
    let failure = hall_key::named(None, &machine.settings()).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    assert!(failure.what.ends_with("work/.jobhall.toml is not trusted"), "{failure}");
    machine.env("JOBHALL_KEY_FILE", "/env.key");
    let found = key_file(&machine).unwrap();
    assert_eq!((found.value.as_str(), found.origin), ("/env.key", Origin::Env("JOBHALL_KEY_FILE")));
    let named = hall_key::named(None, &machine.settings()).unwrap();
    assert_eq!(named.as_deref(), Some(Path::new("/env.key")));
}

#[test]
fn tokens_come_from_flags_variables_or_the_files_they_name() {
    let mut machine = Machine::new();
    machine.write("token", " from-file \n");
    machine.env("JOBHALL_TOKEN_FILE", machine.path("token").to_str().unwrap());
    assert_eq!(machine.settings().token.unwrap().value, "from-file");
    machine.env("JOBHALL_TOKEN", "from-env");
    assert_eq!(machine.settings().token.unwrap().origin, Origin::Env("JOBHALL_TOKEN"));
    machine.given.flags.token = Some("from-flag".to_owned());
    assert_eq!(machine.settings().token.unwrap().value, "from-flag");
    machine.given.flags.token = None;
    machine.given.flags.token_file = Some("/does/not/exist".to_owned());
    assert_eq!(Settings::resolve(&machine.given).unwrap_err().exit, Exit::Usage);
}

#[test]
fn a_project_file_cannot_lead_the_users_token_away() {
    let mut machine = Machine::new();
    machine.write("home/.config/jobhall/config.toml", "token = 'mine'");
    machine.write("work/.jobhall.toml", "[client]\nserver = 'http://evil.example'");
    let failure = Settings::resolve(&machine.given).unwrap_err();
    assert!(failure.what.ends_with("is not sent to http://evil.example"), "{failure}");
    assert!(!failure.to_string().contains("mine"));
    machine.write("work/.jobhall.toml", "[client]\nserver = 'http://127.0.0.1:9'");
    assert_eq!(machine.settings().token.unwrap().value, "mine");
    machine.write("work/.jobhall.toml", "[client]\nserver = 'http://evil.example'");
    machine.env("JOBHALL_TOKEN", "meant-for-it");
    assert_eq!(machine.settings().token.unwrap().value, "meant-for-it");
}

#[test]
fn loopback_is_told_from_the_host_alone() {
    for here in ["http://127.0.0.1:7450", "http://localhost/", "http://[::1]:1/x", "http://127.9.9.9"] {
        assert!(is_loopback(here), "{here}");
    }
    for there in [
        "http://127.0.0.1.evil.example",
        "http://evil/127.0.0.1",
        "http://127.0.0.1@evil:1",
        "http://127.0.0.1:1@evil",
        "http://evil\\@127.0.0.1",
        "http://10.0.0.1",
    ] {
        assert!(!is_loopback(there), "{there}");
    }
}

/// Jobs get the path and run in other directories.
fn absolute(name: &str) -> PathBuf {
    std::env::current_dir().unwrap().join(name)
}

#[test]
fn a_foreign_project_does_not_say_whom_to_believe_about_a_hall_of_ours() {
    let mut machine = Machine::new();
    machine.write("work/.jobhall.toml", "[client]\nca = 'evil.pem'");
    assert_eq!(
        machine.settings().trust(),
        Trust::Authority(absolute("evil.pem")),
        "there is no TLS to weaken"
    );
    machine.env("JOBHALL_SERVER", "https://hall");
    assert_eq!(Settings::resolve(&machine.given).unwrap_err().exit, Exit::Usage);
    machine.env("JOBHALL_CA", "ours.pem");
    assert_eq!(machine.settings().trust(), Trust::Authority(absolute("ours.pem")));
    machine.env("JOBHALL_PIN", "own.pem");
    assert_eq!(machine.settings().trust(), Trust::Certificate(absolute("own.pem")), "the narrower one");
}

#[test]
fn a_project_with_its_own_hall_may_bring_its_authority() {
    let machine = Machine::new();
    machine.write("work/.jobhall.toml", "[client]\nserver = 'https://hall'\nca = 'ca.pem'");
    assert_eq!(machine.settings().trust(), Trust::Authority(absolute("ca.pem")));
}
