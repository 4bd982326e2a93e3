package io.github.bursar.client;

/** A field of a request that is wrong. */
public final class FieldViolation {
  private final String field;
  private final String value;
  private final String want;

  FieldViolation(String field, String value, String want) {
    this.field = field;
    this.value = value;
    this.want = want;
  }

  /** The field's path, such as "labels[user]". */
  public String field() {
    return field;
  }

  /** What was sent; empty if the server does not say. */
  public String value() {
    return value;
  }

  /** What would be right. */
  public String want() {
    return want;
  }

  @Override
  public String toString() {
    return field + (value.isEmpty() ? "" : " = " + value) + ": " + want;
  }
}
