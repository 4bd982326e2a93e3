-- The tables of a Bursar store. An allocation's payload is a bursar.store.v1.AllocationRecord; the columns beside it are what
-- queries need, and are made from it. 64-bit numbers without a sign are stored as the signed number with the same bits.

-- +goose Up

-- "Brsr": how a file says that it is ours.
PRAGMA application_id = 1114796914;
PRAGMA user_version = 1;

-- One row. Every commit names the epoch it was decided under, and changes this row or nothing.
CREATE TABLE meta (
  one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  store_id TEXT    NOT NULL,
  epoch    BIGINT  NOT NULL, -- of the last leadership
  sequence BIGINT  NOT NULL, -- the ledger's revision after the last batch
  last_id  BIGINT  NOT NULL  -- the last id given out by then
);

-- Ids rise, so that rows append.
CREATE TABLE allocation (
  id           INTEGER  NOT NULL PRIMARY KEY,
  state        SMALLINT NOT NULL,
  ended        BIGINT   NOT NULL, -- nanoseconds since 1970; 0: live
  host_id      TEXT     NOT NULL,
  caller       TEXT     NOT NULL,
  request_id   TEXT     NOT NULL, -- empty: none
  request_hash BIGINT   NOT NULL,
  forget       SMALLINT NOT NULL, -- 1: the request id may be used again
  payload      BLOB     NOT NULL
);

-- Live rows first, in the order of their ids; then the history, in the order of ends.
CREATE INDEX allocation_by_end ON allocation (ended, id);

-- For those who ask by request id.
CREATE INDEX allocation_by_request ON allocation (request_id, caller) WHERE request_id <> '';

CREATE TABLE host (
  id      TEXT NOT NULL PRIMARY KEY,
  payload BLOB NOT NULL
);

CREATE TABLE quota (
  selector TEXT NOT NULL PRIMARY KEY,
  payload  BLOB NOT NULL
);
