package io.github.bursar.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;

/** A call that failed. */
public class BursarException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** Connect's codes. */
  public enum Code {
    CANCELED,
    UNKNOWN,
    INVALID_ARGUMENT,
    DEADLINE_EXCEEDED,
    NOT_FOUND,
    ALREADY_EXISTS,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    FAILED_PRECONDITION,
    ABORTED,
    OUT_OF_RANGE,
    UNIMPLEMENTED,
    INTERNAL,
    UNAVAILABLE,
    DATA_LOSS,
    UNAUTHENTICATED
  }

  private final Code code;
  private final boolean retriable;
  private final transient Refusal refusal;
  private final transient List<FieldViolation> fieldViolations;
  private final Duration retryAfter;

  BursarException(Code code, String message, boolean retriable, Throwable cause) {
    this(code, message, retriable, null, Collections.emptyList(), null, cause);
  }

  BursarException(
      Code code,
      String message,
      boolean retriable,
      Refusal refusal,
      List<FieldViolation> fieldViolations,
      Duration retryAfter,
      Throwable cause) {
    super(message, cause);
    this.code = code;
    this.retriable = retriable;
    this.refusal = refusal;
    this.fieldViolations = Collections.unmodifiableList(new ArrayList<>(fieldViolations));
    this.retryAfter = retryAfter;
  }

  /** What kind of failure it is. */
  public Code code() {
    return code;
  }

  /**
   * Whether the same call may succeed later without a change of it: nobody answered, or too much
   * was
   * asked for, or there is not enough now.
   */
  public boolean retriable() {
    return retriable;
  }

  /** If there was not enough: what and where. */
  public Optional<Refusal> refusal() {
    return Optional.ofNullable(refusal);
  }

  /** Which fields are wrong, if some are. */
  public List<FieldViolation> fieldViolations() {
    return fieldViolations == null ? Collections.emptyList() : fieldViolations;
  }

  /** When to ask again, if the server says so. */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }
}
