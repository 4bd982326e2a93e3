package io.github.bursar.linkis;

import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.core.type.AnnotatedTypeMetadata;

/**
 * Conditions on {@code linkis.bursar.mode}, which stands in Linkis's properties and not in
 * Spring's.
 */
public final class OnMode {
  private OnMode() {}

  private abstract static class Base implements Condition {
    @Override
    public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
      return is(Settings.fromLinkis().mode());
    }

    abstract boolean is(Settings.Mode mode);
  }

  /** shadow or enforce. */
  public static final class NotOff extends Base {
    @Override
    boolean is(Settings.Mode mode) {
      return mode != Settings.Mode.OFF;
    }
  }

  /** shadow. */
  public static final class Shadow extends Base {
    @Override
    boolean is(Settings.Mode mode) {
      return mode == Settings.Mode.SHADOW;
    }
  }

  /** enforce. */
  public static final class Enforce extends Base {
    @Override
    boolean is(Settings.Mode mode) {
      return mode == Settings.Mode.ENFORCE;
    }
  }
}
