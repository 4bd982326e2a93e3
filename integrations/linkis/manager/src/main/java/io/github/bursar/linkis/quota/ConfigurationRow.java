package io.github.bursar.linkis.quota;

import java.util.Objects;
import java.util.Optional;

/** One value of Linkis's configuration: who it is for, the key, and what it says. */
final class ConfigurationRow {
  /** In a row: for all. */
  static final String ANY = "*";
  /** Most characters of a label's value, as Bursar's API has it. */
  private static final int MAX_NAME = 255;
  private static final int MAX_SHOWN = 100;

  final Scope scope;
  final String key;
  /** Null or empty: the key's default counts. */
  final String value;

  final String defaultValue;

  ConfigurationRow(Scope scope, String key, String value, String defaultValue) {
    this.scope = scope;
    this.key = key;
    this.value = value;
    this.defaultValue = defaultValue;
  }

  /** A text of the tables for a message: cut, and without control characters. */
  static String shown(String text) {
    StringBuilder s = new StringBuilder();
    text.codePoints().limit(MAX_SHOWN).forEach(c -> {
      if (Character.isISOControl(c) || Character.getType(c) == Character.SURROGATE || Character.getType(c) == Character.FORMAT) {
        s.append(String.format("\\u%04x", c));
      } else {
        s.appendCodePoint(c);
      }
    });
    return s + (text.codePointCount(0, text.length()) > MAX_SHOWN ? "..." : "");
  }

  /** Whom a row or a rule is for. Each part may be {@link #ANY}. */
  static final class Scope {
    final String user;
    final String creator;
    final String engineType;
    final String engineVersion;

    Scope(String user, String creator, String engineType, String engineVersion) {
      this.user = user;
      this.creator = creator;
      this.engineType = engineType;
      this.engineVersion = engineVersion;
    }

    /**
     * Reads the value of a label combined_userCreator_engineType as the configuration writes it:
     * "alice-IDE,spark-3.2.1". Empty: it is none.
     */
    static Optional<Scope> parse(String labelValue) {
      String[] parts = labelValue.split(",", -1);
      if (parts.length != 2) {
        return Optional.empty();
      }
      String[] who = parts[0].split("-", -1);
      String[] engine = parts[1].split("-", 2);
      if (who.length != 2 || engine.length != 2) {
        return Optional.empty();
      }
      for (String name : new String[] {who[0], who[1], engine[0], engine[1]}) {
        if (name.isEmpty() || name.contains(ANY) && !name.equals(ANY)) {
          return Optional.empty();
        }
      }
      return Optional.of(new Scope(who[0], who[1], engine[0], engine[1]));
    }

    /** Whether Bursar takes its names as values of labels. */
    boolean fits() {
      for (String name : new String[] {user, creator, engineType, engineVersion}) {
        if (name.codePointCount(0, name.length()) > MAX_NAME || name.codePoints().anyMatch(Scope::isRefused)) {
          return false;
        }
      }
      return true;
    }

    private static boolean isRefused(int c) {
      return c < ' ' || c == 0x7f || Character.getType(c) == Character.SURROGATE;
    }

    boolean anyEngine() {
      return engineType.equals(ANY);
    }

    Scope withUser(String other) {
      return new Scope(other, creator, engineType, engineVersion);
    }

    Scope withCreator(String other) {
      return new Scope(user, other, engineType, engineVersion);
    }

    Scope withAnyEngine() {
      return new Scope(user, creator, ANY, ANY);
    }

    @Override
    public boolean equals(Object o) {
      if (!(o instanceof Scope)) {
        return false;
      }
      Scope s = (Scope) o;
      return user.equals(s.user) && creator.equals(s.creator) && engineType.equals(s.engineType) && engineVersion.equals(s.engineVersion);
    }

    @Override
    public int hashCode() {
      return Objects.hash(user, creator, engineType, engineVersion);
    }

    @Override
    public String toString() {
      return user + "-" + creator + "," + engineType + "-" + engineVersion;
    }
  }
}
