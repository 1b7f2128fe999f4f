-- Names of kernels and scenarios, and versions.
CREATE TABLE text (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE night (
  id INTEGER PRIMARY KEY,          -- when it started, in seconds since 1970
  digest BLOB NOT NULL,            -- of its results
  seconds REAL NOT NULL,
  complete INTEGER NOT NULL,
  qemu INTEGER NOT NULL REFERENCES text,
  architecture INTEGER NOT NULL REFERENCES text,
  cpus INTEGER NOT NULL,
  accelerator INTEGER NOT NULL REFERENCES text
) STRICT;

CREATE TABLE night_kernel (
  night INTEGER NOT NULL REFERENCES night,
  kernel INTEGER NOT NULL REFERENCES text,
  version INTEGER NOT NULL REFERENCES text,
  config INTEGER NOT NULL REFERENCES text,
  lines_ran INTEGER,               -- null if it was not measured
  lines INTEGER,
  functions_ran INTEGER,
  functions INTEGER,
  PRIMARY KEY (night, kernel)
) STRICT, WITHOUT ROWID;

CREATE TABLE scenario_on_kernel (
  id INTEGER PRIMARY KEY,
  kernel INTEGER NOT NULL REFERENCES text,
  scenario INTEGER NOT NULL REFERENCES text,
  UNIQUE (kernel, scenario)
) STRICT;

CREATE TABLE failure (
  id INTEGER PRIMARY KEY,
  fingerprint TEXT NOT NULL UNIQUE,
  broken TEXT NOT NULL,
  finding TEXT NOT NULL,
  reproducer BLOB                  -- repro.yaml, compressed by zlib
) STRICT;

CREATE TABLE result (
  night INTEGER NOT NULL REFERENCES night,
  place INTEGER NOT NULL REFERENCES scenario_on_kernel,
  repeat INTEGER NOT NULL,         -- 0 without repeats
  retry INTEGER NOT NULL,          -- 0 for the first try
  status INTEGER NOT NULL,
  hundredths INTEGER NOT NULL,     -- of a second
  failure INTEGER REFERENCES failure,
  PRIMARY KEY (night, place, repeat, retry)
) STRICT, WITHOUT ROWID;
