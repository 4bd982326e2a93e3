package io.github.bursar.linkis.allocation;

import io.github.bursar.client.BursarException;
import org.apache.linkis.common.exception.LinkisRetryException;
import org.apache.linkis.common.exception.LinkisRuntimeException;
import org.apache.linkis.manager.common.constant.AMConstant;
import org.apache.linkis.manager.common.exception.RMErrorException;

/**
 * Bursar's errors as Linkis's: what may go better next time is a LinkisRetryException, which
 * callers repeat.
 */
final class LinkisErrors {
  private LinkisErrors() {}

  static LinkisRuntimeException of(String what, BursarException e) {
    String message = what + ": Bursar: " + e.getMessage();
    boolean again = e.retriable() || e.code() == BursarException.Code.CANCELED;
    LinkisRuntimeException error = again ? retry(message) : wrong(message);
    error.initCause(e);
    return error;
  }

  static LinkisRetryException retry(String message) {
    return new LinkisRetryException(AMConstant.EM_ERROR_CODE, message);
  }

  static RMErrorException wrong(String message) {
    return new RMErrorException(AMConstant.EM_ERROR_CODE, message);
  }
}
