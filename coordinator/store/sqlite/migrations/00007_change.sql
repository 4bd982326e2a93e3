-- PostgreSQL has a record of the latest commits from here on, for coordinators that stand by. A file has one coordinator.

-- +goose Up

PRAGMA user_version = 7;
