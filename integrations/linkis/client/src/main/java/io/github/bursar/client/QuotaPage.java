package io.github.bursar.client;

import java.util.Collections;
import java.util.List;

/** A page of rules and their accounts: all rules come before the first account. */
public final class QuotaPage {
  private final List<Quota> quotas;
  private final List<Account> accounts;
  private final String nextPageToken;
  private final long revision;

  QuotaPage(List<Quota> quotas, List<Account> accounts, String nextPageToken, long revision) {
    this.quotas = Collections.unmodifiableList(quotas);
    this.accounts = Collections.unmodifiableList(accounts);
    this.nextPageToken = nextPageToken;
    this.revision = revision;
  }

  /** Rules. */
  public List<Quota> quotas() {
    return quotas;
  }

  /** Accounts. */
  public List<Account> accounts() {
    return accounts;
  }

  /** Empty on the last page. */
  public String nextPageToken() {
    return nextPageToken;
  }

  /** The ledger's revision. */
  public long revision() {
    return revision;
  }
}
