package io.github.bursar.linkis.projection;

import io.github.bursar.client.Account;
import io.github.bursar.client.ExternalResource;
import io.github.bursar.client.Quota;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/**
 * Finds what limits a set of labels: of the rules with the same keys the one with the most exact
 * values, and the account that counts it.
 */
final class QuotaIndex {
  private static final String ANY = "*";

  /** Rules and accounts that have the same keys. */
  private static final class Scope {
    final List<String> keys;
    final Map<List<String>, Quota> rules = new HashMap<>();
    final Map<List<String>, List<Account>> accounts = new HashMap<>();

    Scope(List<String> keys) {
      this.keys = keys;
    }

    /** The rule for these values; null if there is none. */
    Quota rule(List<String> values) {
      Quota best = null;
      int exact = -1;
      for (int mask = 0; mask < 1 << keys.size(); mask++) {
        if (Integer.bitCount(mask) <= exact) {
          continue;
        }
        List<String> selector = new ArrayList<>(values);
        for (int i = 0; i < keys.size(); i++) {
          if ((mask >> i & 1) == 0) {
            selector.set(i, ANY);
          }
        }
        Quota rule = rules.get(selector);
        if (rule != null) {
          best = rule;
          exact = Integer.bitCount(mask);
        }
      }
      return best;
    }
  }

  private final Map<List<String>, Scope> scopes = new HashMap<>();

  QuotaIndex(Collection<Quota> rules, Collection<Account> accounts) {
    for (Quota rule : rules) {
      if (rule.hidden().isEmpty()) {
        TreeMap<String, String> labels = new TreeMap<>(rule.selector());
        scope(labels).rules.put(new ArrayList<>(labels.values()), rule);
      }
    }
    for (Account a : accounts) {
      TreeMap<String, String> labels = new TreeMap<>(a.name().labels());
      scope(labels).accounts.computeIfAbsent(new ArrayList<>(labels.values()), v -> new ArrayList<>()).add(a);
    }
  }

  private Scope scope(TreeMap<String, String> labels) {
    return scopes.computeIfAbsent(new ArrayList<>(labels.keySet()), Scope::new);
  }

  /**
   * Bounds what labels may have by their limits, and what is left by what their accounts have.
   *
   * @param valueOf the value of a label; empty if it is not there
   */
  void bound(Function<String, String> valueOf, Amounts max, Amounts left) {
    for (Scope scope : scopes.values()) {
      List<String> values = new ArrayList<>(scope.keys.size());
      for (String key : scope.keys) {
        values.add(valueOf.apply(key));
      }
      Quota rule = scope.rule(values);
      if (rule == null) {
        continue;
      }
      max.bound(rule.limit());
      for (ExternalResource part : rule.limit().external()) {
        if (part.kind().equals(Amounts.YARN)) {
          max.boundQueues(part.amount());
        }
      }
      for (Account a : scope.accounts.getOrDefault(values, new ArrayList<>())) {
        if (a.name().external().isEmpty()) {
          left.bound(a.available());
        } else if (a.name().external().startsWith(Amounts.YARN + ":")) {
          left.boundQueues(a.available());
        }
      }
    }
  }
}
